// What is negative becomes 0, what is not a number stays. By their bits: a comparison of floats may
// take denormals for zeros, or be compiled as if nothing were NaN. In order of bits, the numbers from
// the least negative one to minus infinity are neighbours.
fn positive(v: vec4<f32>) -> vec4<f32> {
    let bits = bitcast<vec4<u32>>(v);
    let negative = bits - vec4<u32>(0x80000001u) < vec4<u32>(0x7f800000u);
    return bitcast<vec4<f32>>(select(bits, vec4<u32>(0u), negative));
}

