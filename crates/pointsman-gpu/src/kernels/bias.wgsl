@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<vec4<f32>>;

fn value(i: u32) -> vec4<f32> {
    let at = (vec4<u32>(4u * i) + vec4<u32>(0u, 1u, 2u, 3u)) % vec4<u32>(p.columns);
    let v = out[i] + vec4<f32>(b[at.x], b[at.y], b[at.z], b[at.w]);
    if (p.relu != 0u) { return positive(v); }
    return v;
}

