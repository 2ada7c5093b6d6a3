// Each invocation works on one element: eight multiply-adds a round.
struct Params { n: u32, rounds: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> x: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= p.n) { return; }
    var v = vec4<f32>(x[id.x]);
    for (var i = 0u; i < p.rounds; i++) {
        v = fma(v, vec4<f32>(0.9990234375), vec4<f32>(0.0009765625));
        v = fma(v, vec4<f32>(0.9990234375), vec4<f32>(0.0009765625));
    }
    x[id.x] = 0.25 * (v.x + v.y + v.z + v.w);
}
