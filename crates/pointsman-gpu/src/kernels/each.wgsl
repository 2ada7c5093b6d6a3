// Four elements an invocation: `value` of each quad goes to `out`.
struct Params { n: u32, a: f32, columns: u32, relu: u32 }
@group(0) @binding(0) var<uniform> p: Params;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = group(id, grid) * 64u + local;
    let first = 4u * i;
    if (first >= p.n) { return; }
    let v = value(i);
    if (first + 4u <= p.n) {
        out[i] = v;
        return;
    }
    // What follows the last element may be somebody's.
    out[i].x = v.x;
    if (first + 1u < p.n) { out[i].y = v.y; }
    if (first + 2u < p.n) { out[i].z = v.z; }
}
