// y = A x: sixteen invocations go through four rows, a quad of each at a time, and add up what they
// have by a tree.
struct Params { m: u32, quads: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;

var<workgroup> sums: array<vec4<f32>, 64>;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let m = p.m;
    let quads = p.quads;
    let top = group(id, grid) * 16u;
    if (top >= m) { return; }
    let first = top + local / 16u * 4u;
    // A row too many is the last one again.
    let rows = min(vec4<u32>(first) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(m - 1u)) * quads;
    var s0 = vec4<f32>();
    var s1 = vec4<f32>();
    var s2 = vec4<f32>();
    var s3 = vec4<f32>();
    for (var i = local % 16u; i < quads; i += 16u) {
        let v = x[i];
        s0 += a[rows.x + i] * v;
        s1 += a[rows.y + i] * v;
        s2 += a[rows.z + i] * v;
        s3 += a[rows.w + i] * v;
    }
    let low = vec4<f32>(s0.x + s0.y, s1.x + s1.y, s2.x + s2.y, s3.x + s3.y);
    sums[local] = low + vec4<f32>(s0.z + s0.w, s1.z + s1.w, s2.z + s2.w, s3.z + s3.w);
    for (var width = 8u; width > 0u; width >>= 1u) {
        workgroupBarrier();
        if (local % 16u < width) { sums[local] += sums[local + width]; }
    }
    if (local % 16u != 0u) { return; }
    let sum = sums[local];
    if (first < m) { y[first] = sum.x; }
    if (first + 1u < m) { y[first + 1u] = sum.y; }
    if (first + 2u < m) { y[first + 2u] = sum.z; }
    if (first + 3u < m) { y[first + 3u] = sum.w; }
}
