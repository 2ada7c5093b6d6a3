@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

fn term(i: u32) -> vec4<f32> {
    return x[i];
}

