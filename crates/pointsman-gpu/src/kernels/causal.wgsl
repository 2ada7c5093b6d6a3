// Eight results in a row an invocation. Step by step through the weights, four at a time, the window
// on x that they need moves back by four: two loads for 32 products.
struct Params { n: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> w: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;

// Four weights on what is at four results and just before them.
fn whole(w: vec4<f32>, late: vec4<f32>, early: vec4<f32>) -> vec4<f32> {
    return w.x * late + w.y * vec4<f32>(early.w, late.xyz) + w.z * vec4<f32>(early.zw, late.xy)
        + w.w * vec4<f32>(early.yzw, late.x);
}

// The same where x begins: what would come before it is left out rather than taken for 0, as 0
// times infinity is not 0.
fn first(w: vec4<f32>, x: vec4<f32>) -> vec4<f32> {
    return vec4<f32>(
        w.x * x.x,
        w.x * x.y + w.y * x.x,
        w.x * x.z + w.y * x.y + w.z * x.x,
        w.x * x.w + w.y * x.z + w.z * x.y + w.w * x.x,
    );
}

fn put(at: u32, v: vec4<f32>) {
    if (at < p.n) { y[at] = v.x; }
    if (at + 1u < p.n) { y[at + 1u] = v.y; }
    if (at + 2u < p.n) { y[at + 2u] = v.z; }
    if (at + 3u < p.n) { y[at + 3u] = v.w; }
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let eights = (p.n + 7u) / 8u;
    let at = group(id, grid) * 64u + local;
    if (at >= eights) { return; }
    // The last results have the most terms: they begin first.
    let mine = 2u * (eights - 1u - at);
    // There may be no second quad; then its results are not put anywhere.
    let other = min(mine + 1u, (p.n + 3u) / 4u - 1u);
    var low = vec4<f32>();
    var high = vec4<f32>();
    var last = x[other];
    var late = x[mine];
    for (var i = 0u; i < mine; i++) {
        let weights = w[i];
        let early = x[mine - i - 1u];
        low += whole(weights, late, early);
        high += whole(weights, last, late);
        last = late;
        late = early;
    }
    let weights = w[mine];
    put(4u * mine, low + first(weights, late));
    put(4u * mine + 4u, high + whole(weights, last, late) + first(w[other], late));
}
