@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> out: array<vec4<f32>>;

fn value(i: u32) -> vec4<f32> {
    return p.a * x[i] + out[i];
}

