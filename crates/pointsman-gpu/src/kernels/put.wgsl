// Four columns of a row of C, as far as it has them.
fn put(row: u32, column: u32, v: vec4<f32>) {
    if (row >= p.m) { return; }
    let at = row * p.n + column;
    if (column < p.n) { c[at] = v.x; }
    if (column + 1u < p.n) { c[at + 1u] = v.y; }
    if (column + 2u < p.n) { c[at + 2u] = v.z; }
    if (column + 3u < p.n) { c[at + 3u] = v.w; }
}
