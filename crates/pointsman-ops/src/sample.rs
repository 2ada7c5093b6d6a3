//! Numbers for the checks against the reference.

/// So many numbers between −1 and 1, the same for the same seed and stream. Signs vary and no two
/// neighbours are alike, so that a swapped, skipped or doubled element shows.
pub(crate) fn floats(len: usize, seed: u64, stream: u64) -> Vec<f32> {
    let start = seed ^ stream.wrapping_mul(0xD1B5_4A32_D192_ED03);
    let float = |i: usize| {
        let bits = splitmix(start.wrapping_add(i as u64)) >> 40; // 24 bits: exact in a float
        bits as f32 / (1 << 23) as f32 - 1.0
    };
    (0..len).map(float).collect()
}

/// SplitMix64's output function.
fn splitmix(n: u64) -> u64 {
    let n = n.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let n = (n ^ n >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let n = (n ^ n >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    n ^ n >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_repeat_for_a_seed_and_differ_between_streams() {
        let floats = |seed, stream| floats(1000, seed, stream);
        assert_eq!(floats(1, 0), floats(1, 0));
        assert_ne!(floats(1, 0), floats(1, 1));
        assert_ne!(floats(1, 0), floats(2, 0));
        assert!(floats(3, 0).iter().all(|x| (-1.0..1.0).contains(x)));
        assert!(floats(3, 0).iter().any(|x| *x < -0.9) && floats(3, 0).iter().any(|x| *x > 0.9));
    }
}
