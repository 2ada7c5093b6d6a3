// C = A B in blocks of 16 by 16, one an invocation, all in registers. A and B come in quads of four
// columns; four quads of B below each other are a matrix that takes a quad of A to a quad of C.
struct Params { m: u32, quads: u32, n: u32, n_quads: u32, across: u32, tiles: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> b: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> c: array<f32>;

fn four(at: u32, next: u32) -> mat4x4<f32> {
    return mat4x4<f32>(b[at], b[at + next], b[at + 2u * next], b[at + 3u * next]);
}

fn put_row(row: u32, column: u32, v0: vec4<f32>, v1: vec4<f32>, v2: vec4<f32>, v3: vec4<f32>) {
    put(row, column, v0);
    put(row, column + 4u, v1);
    put(row, column + 8u, v2);
    put(row, column + 12u, v3);
}

// Eight invocations side by side: they want the same rows of A, and fill the lanes of a CPU.
@compute @workgroup_size(8)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let tile = group(id, grid);
    if (tile >= p.tiles) { return; }
    let quads = p.quads;
    let next = p.n_quads;
    let row = tile / p.across * 16u;
    let quad = tile % p.across * 32u + 4u * local;
    // A row or column too many is the last one again, and is not put anywhere.
    let one = vec4<u32>(0u, 1u, 2u, 3u);
    let last = vec4<u32>(p.m - 1u);
    let r0 = min(vec4<u32>(row) + one, last) * quads;
    let r1 = min(vec4<u32>(row + 4u) + one, last) * quads;
    let r2 = min(vec4<u32>(row + 8u) + one, last) * quads;
    let r3 = min(vec4<u32>(row + 12u) + one, last) * quads;
    let columns = min(vec4<u32>(quad) + one, vec4<u32>(next - 1u));
    var s00 = vec4<f32>(); var s01 = vec4<f32>(); var s02 = vec4<f32>(); var s03 = vec4<f32>();
    var s10 = vec4<f32>(); var s11 = vec4<f32>(); var s12 = vec4<f32>(); var s13 = vec4<f32>();
    var s20 = vec4<f32>(); var s21 = vec4<f32>(); var s22 = vec4<f32>(); var s23 = vec4<f32>();
    var s30 = vec4<f32>(); var s31 = vec4<f32>(); var s32 = vec4<f32>(); var s33 = vec4<f32>();
    var s40 = vec4<f32>(); var s41 = vec4<f32>(); var s42 = vec4<f32>(); var s43 = vec4<f32>();
    var s50 = vec4<f32>(); var s51 = vec4<f32>(); var s52 = vec4<f32>(); var s53 = vec4<f32>();
    var s60 = vec4<f32>(); var s61 = vec4<f32>(); var s62 = vec4<f32>(); var s63 = vec4<f32>();
    var s70 = vec4<f32>(); var s71 = vec4<f32>(); var s72 = vec4<f32>(); var s73 = vec4<f32>();
    var s80 = vec4<f32>(); var s81 = vec4<f32>(); var s82 = vec4<f32>(); var s83 = vec4<f32>();
    var s90 = vec4<f32>(); var s91 = vec4<f32>(); var s92 = vec4<f32>(); var s93 = vec4<f32>();
    var sa0 = vec4<f32>(); var sa1 = vec4<f32>(); var sa2 = vec4<f32>(); var sa3 = vec4<f32>();
    var sb0 = vec4<f32>(); var sb1 = vec4<f32>(); var sb2 = vec4<f32>(); var sb3 = vec4<f32>();
    var sc0 = vec4<f32>(); var sc1 = vec4<f32>(); var sc2 = vec4<f32>(); var sc3 = vec4<f32>();
    var sd0 = vec4<f32>(); var sd1 = vec4<f32>(); var sd2 = vec4<f32>(); var sd3 = vec4<f32>();
    var se0 = vec4<f32>(); var se1 = vec4<f32>(); var se2 = vec4<f32>(); var se3 = vec4<f32>();
    var sf0 = vec4<f32>(); var sf1 = vec4<f32>(); var sf2 = vec4<f32>(); var sf3 = vec4<f32>();
    for (var i = 0u; i < quads; i++) {
        let at = columns + vec4<u32>(4u * i * next);
        let m0 = four(at.x, next);
        let m1 = four(at.y, next);
        let m2 = four(at.z, next);
        let m3 = four(at.w, next);
        var x: vec4<f32>;
        x = a[r0.x + i];
        s00 += m0 * x; s01 += m1 * x; s02 += m2 * x; s03 += m3 * x;
        x = a[r0.y + i];
        s10 += m0 * x; s11 += m1 * x; s12 += m2 * x; s13 += m3 * x;
        x = a[r0.z + i];
        s20 += m0 * x; s21 += m1 * x; s22 += m2 * x; s23 += m3 * x;
        x = a[r0.w + i];
        s30 += m0 * x; s31 += m1 * x; s32 += m2 * x; s33 += m3 * x;
        x = a[r1.x + i];
        s40 += m0 * x; s41 += m1 * x; s42 += m2 * x; s43 += m3 * x;
        x = a[r1.y + i];
        s50 += m0 * x; s51 += m1 * x; s52 += m2 * x; s53 += m3 * x;
        x = a[r1.z + i];
        s60 += m0 * x; s61 += m1 * x; s62 += m2 * x; s63 += m3 * x;
        x = a[r1.w + i];
        s70 += m0 * x; s71 += m1 * x; s72 += m2 * x; s73 += m3 * x;
        x = a[r2.x + i];
        s80 += m0 * x; s81 += m1 * x; s82 += m2 * x; s83 += m3 * x;
        x = a[r2.y + i];
        s90 += m0 * x; s91 += m1 * x; s92 += m2 * x; s93 += m3 * x;
        x = a[r2.z + i];
        sa0 += m0 * x; sa1 += m1 * x; sa2 += m2 * x; sa3 += m3 * x;
        x = a[r2.w + i];
        sb0 += m0 * x; sb1 += m1 * x; sb2 += m2 * x; sb3 += m3 * x;
        x = a[r3.x + i];
        sc0 += m0 * x; sc1 += m1 * x; sc2 += m2 * x; sc3 += m3 * x;
        x = a[r3.y + i];
        sd0 += m0 * x; sd1 += m1 * x; sd2 += m2 * x; sd3 += m3 * x;
        x = a[r3.z + i];
        se0 += m0 * x; se1 += m1 * x; se2 += m2 * x; se3 += m3 * x;
        x = a[r3.w + i];
        sf0 += m0 * x; sf1 += m1 * x; sf2 += m2 * x; sf3 += m3 * x;
    }
    let column = 4u * quad;
    put_row(row + 0u, column, s00, s01, s02, s03);
    put_row(row + 1u, column, s10, s11, s12, s13);
    put_row(row + 2u, column, s20, s21, s22, s23);
    put_row(row + 3u, column, s30, s31, s32, s33);
    put_row(row + 4u, column, s40, s41, s42, s43);
    put_row(row + 5u, column, s50, s51, s52, s53);
    put_row(row + 6u, column, s60, s61, s62, s63);
    put_row(row + 7u, column, s70, s71, s72, s73);
    put_row(row + 8u, column, s80, s81, s82, s83);
    put_row(row + 9u, column, s90, s91, s92, s93);
    put_row(row + 10u, column, sa0, sa1, sa2, sa3);
    put_row(row + 11u, column, sb0, sb1, sb2, sb3);
    put_row(row + 12u, column, sc0, sc1, sc2, sc3);
    put_row(row + 13u, column, sd0, sd1, sd2, sd3);
    put_row(row + 14u, column, se0, se1, se2, se3);
    put_row(row + 15u, column, sf0, sf1, sf2, sf3);
}

