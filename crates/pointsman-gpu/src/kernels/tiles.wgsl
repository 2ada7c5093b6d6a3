// C = A B in tiles of 64 by 64, for devices whose invocations share fast memory: 256 invocations,
// each with four rows and four columns, go through 16 columns of A and rows of B at a time.
struct Params { m: u32, k: u32, n: u32, across: u32, tiles: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> a: array<f32>;
@group(0) @binding(2) var<storage, read> b: array<f32>;
@group(0) @binding(3) var<storage, read_write> c: array<f32>;

// Sixteen quads of rows for each column of A, and one of padding, so that neighbours write to
// different banks; sixteen quads of columns for each row of B.
var<workgroup> left: array<vec4<f32>, 272>;
var<workgroup> right: array<vec4<f32>, 256>;

fn of_a(row: u32, column: u32) -> f32 {
    if (row < p.m && column < p.k) { return a[row * p.k + column]; }
    return 0.0;
}

fn of_b(row: u32, column: u32) -> f32 {
    if (row < p.k && column < p.n) { return b[row * p.n + column]; }
    return 0.0;
}

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let tile = group(id, grid);
    if (tile >= p.tiles) { return; }
    let top = tile / p.across * 64u;
    let side = tile % p.across * 64u;
    let high = local / 16u;
    let low = local % 16u;
    let row = top + 4u * high;
    let column = side + 4u * low;
    var s0 = vec4<f32>();
    var s1 = vec4<f32>();
    var s2 = vec4<f32>();
    var s3 = vec4<f32>();
    for (var start = 0u; start < p.k; start += 16u) {
        left[low * 17u + high] = vec4<f32>(
            of_a(row, start + low),
            of_a(row + 1u, start + low),
            of_a(row + 2u, start + low),
            of_a(row + 3u, start + low),
        );
        right[local] = vec4<f32>(
            of_b(start + high, column),
            of_b(start + high, column + 1u),
            of_b(start + high, column + 2u),
            of_b(start + high, column + 3u),
        );
        workgroupBarrier();
        for (var i = 0u; i < 16u; i++) {
            let x = left[i * 17u + high];
            let y = right[i * 16u + low];
            s0 += x.x * y;
            s1 += x.y * y;
            s2 += x.z * y;
            s3 += x.w * y;
        }
        workgroupBarrier();
    }
    put(row, column, s0);
    put(row + 1u, column, s1);
    put(row + 2u, column, s2);
    put(row + 3u, column, s3);
}

