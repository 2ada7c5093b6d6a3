// One stage of Stockham's transform: `done` numbers of a row have been joined, after it `radix`
// times as many. Each invocation joins `radix` numbers that are n / radix apart, and puts them where
// they belong, so that no permutation is left for the end.
struct Params { total: u32, n: u32, done: u32, radix: u32, inverse: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<vec2<f32>>;
@group(0) @binding(2) var<storage, read> roots: array<vec2<f32>>;
@group(0) @binding(3) var<storage, read_write> y: array<vec2<f32>>;

fn product(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
    return vec2<f32>(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

// e^(-2 pi i k / n), or its conjugate.
fn root(k: u32) -> vec2<f32> {
    let w = roots[k];
    return select(w, vec2<f32>(w.x, -w.y), p.inverse != 0u);
}

// v times -i, or i.
fn quarter(v: vec2<f32>) -> vec2<f32> {
    return select(vec2<f32>(v.y, -v.x), vec2<f32>(-v.y, v.x), p.inverse != 0u);
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let at = group(id, grid) * 64u + local;
    if (at >= p.total) { return; }
    let apart = p.n / p.radix;
    let row = at / apart * p.n;
    let j = at % apart;
    let start = row + j;
    let k = j % p.done;
    let to = row + (j - k) * p.radix + k;
    let step = k * (apart / p.done);
    let a = x[start];
    if (p.radix == 1u) {
        y[to] = a;
        return;
    }
    let b = product(x[start + apart], root(step));
    if (p.radix == 2u) {
        y[to] = a + b;
        y[to + p.done] = a - b;
        return;
    }
    let c = product(x[start + 2u * apart], root(2u * step));
    let d = product(x[start + 3u * apart], root(3u * step));
    let even = a + c;
    let odd = a - c;
    let sum = b + d;
    let turned = quarter(b - d);
    y[to] = even + sum;
    y[to + p.done] = odd + turned;
    y[to + 2u * p.done] = even - sum;
    y[to + 3u * p.done] = odd - turned;
}
