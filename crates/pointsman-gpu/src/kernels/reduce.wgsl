// Each workgroup adds up 4096 `term`s, 64 at every invocation, and those by a tree.
struct Params { n: u32, groups: u32 }
@group(0) @binding(0) var<uniform> p: Params;

var<workgroup> sums: array<f32, 64>;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let at = group(id, grid);
    if (at >= p.groups) { return; }
    let n = p.n;
    let end = min(1024u * (at + 1u), (n + 3u) / 4u);
    var sum = vec4<f32>();
    for (var i = 1024u * at + local; i < end; i += 64u) {
        // What follows the last element may be anything.
        let there = vec4<u32>(4u * i) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(n);
        sum += select(vec4<f32>(), term(i), there);
    }
    sums[local] = (sum.x + sum.y) + (sum.z + sum.w);
    for (var width = 32u; width > 0u; width >>= 1u) {
        workgroupBarrier();
        if (local < width) { sums[local] += sums[local + width]; }
    }
    if (local == 0u) { out[at] = sums[0]; }
}
