// A matrix of `rows` and `columns`, which may lie transposed, into one of more of both, with zeros:
// four columns an invocation.
struct Params {
    rows: u32, columns: u32, down: u32, right: u32,
    all_rows: u32, quads: u32,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<vec4<f32>>;

fn element(row: u32, column: u32) -> f32 {
    if (row < p.rows && column < p.columns) { return x[row * p.down + column * p.right]; }
    return 0.0;
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let at = group(id, grid) * 64u + local;
    if (at >= p.all_rows * p.quads) { return; }
    let row = at / p.quads;
    let column = 4u * (at % p.quads);
    y[at] = vec4<f32>(
        element(row, column),
        element(row, column + 1u),
        element(row, column + 2u),
        element(row, column + 3u),
    );
}
