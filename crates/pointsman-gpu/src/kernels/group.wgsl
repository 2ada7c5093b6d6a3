// The number of a workgroup in a grid of two dimensions.
fn group(id: vec3<u32>, grid: vec3<u32>) -> u32 {
    return id.y * grid.x + id.x;
}

