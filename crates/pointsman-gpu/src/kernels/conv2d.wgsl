// Eight filters at four positions an invocation. The filters lie transposed: one load has an element
// of four of them.
struct Params {
    images: u32, c: u32, h: u32, w: u32,
    k: u32, r: u32, s: u32, stride: u32,
    padding: u32, rows: u32, columns: u32, chunks: u32,
    quads: u32,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> filters: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let eights = (p.k + 7u) / 8u;
    let at = group(id, grid);
    if (at >= p.images * eights * p.chunks) { return; }
    let chunk = at % p.chunks;
    let eight = at / p.chunks % eights;
    let image = at / p.chunks / eights;
    let quads = p.quads;
    let h = p.h;
    let w = p.w;

    // Where each position's filter begins, above and left of the image by the padding: what wraps
    // below 0 is beyond the image, too.
    let first = 256u * chunk + local;
    let positions = vec4<u32>(first) + vec4<u32>(0u, 64u, 128u, 192u);
    let top = positions / vec4<u32>(p.columns) * p.stride - vec4<u32>(p.padding);
    let left = positions % vec4<u32>(p.columns) * p.stride - vec4<u32>(p.padding);

    var s0 = vec4<f32>();
    var s1 = vec4<f32>();
    var s2 = vec4<f32>();
    var s3 = vec4<f32>();
    var t0 = vec4<f32>();
    var t1 = vec4<f32>();
    var t2 = vec4<f32>();
    var t3 = vec4<f32>();
    var weight = 2u * eight;
    // There may be no second quad; then its sums are not put anywhere.
    let second = min(1u, quads - 1u - weight);
    var channel = image * p.c * h * w;
    for (var c = 0u; c < p.c; c++) {
        for (var i = 0u; i < p.r; i++) {
            let down = top + vec4<u32>(i);
            let row = vec4<u32>(channel) + down * w;
            for (var j = 0u; j < p.s; j++) {
                let right = left + vec4<u32>(j);
                let inside = (down < vec4<u32>(h)) & (right < vec4<u32>(w));
                let place = select(vec4<u32>(0u), row + right, inside);
                let v = vec4<f32>(x[place.x], x[place.y], x[place.z], x[place.w]);
                let g = filters[weight];
                let f = filters[weight + second];
                // Beyond the image there is nothing to multiply: not a 0, which an infinite weight
                // would make NaN of.
                s0 += select(vec4<f32>(), v.x * g, inside.x);
                s1 += select(vec4<f32>(), v.y * g, inside.y);
                s2 += select(vec4<f32>(), v.z * g, inside.z);
                s3 += select(vec4<f32>(), v.w * g, inside.w);
                t0 += select(vec4<f32>(), v.x * f, inside.x);
                t1 += select(vec4<f32>(), v.y * f, inside.y);
                t2 += select(vec4<f32>(), v.z * f, inside.z);
                t3 += select(vec4<f32>(), v.w * f, inside.w);
                weight += quads;
            }
        }
        channel += h * w;
    }
    let which = 8u * eight;
    put(image, which, positions.x, s0);
    put(image, which, positions.y, s1);
    put(image, which, positions.z, s2);
    put(image, which, positions.w, s3);
    put(image, which + 4u, positions.x, t0);
    put(image, which + 4u, positions.y, t1);
    put(image, which + 4u, positions.z, t2);
    put(image, which + 4u, positions.w, t3);
}

// Four filters at a position, as far as there are such.
fn put(image: u32, which: u32, position: u32, sums: vec4<f32>) {
    let plane = p.rows * p.columns;
    if (position >= plane) { return; }
    let at = (image * p.k + which) * plane + position;
    if (which < p.k) { y[at] = sums.x; }
    if (which + 1u < p.k) { y[at + plane] = sums.y; }
    if (which + 2u < p.k) { y[at + 2u * plane] = sums.z; }
    if (which + 3u < p.k) { y[at + 3u * plane] = sums.w; }
}
