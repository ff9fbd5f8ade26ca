//! CRC-32, by the code that suits the length.
//!
//! crc32fast asks the processor what it can do, once in a process, and where a hypervisor answers, that takes tens of
//! microseconds: half of what a process that appends once may take in all. Short inputs go through tables instead.

use crc::{CRC_32_ISO_HDLC, Crc, Table};

/// Up to here tables are as fast.
const MOST_SHORT_LEN: usize = 256;

static TABLES: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISO_HDLC);

/// The CRC of what `crc` is the CRC of (0: of nothing), followed by `bytes`.
#[inline]
pub(super) fn continued(crc: u32, bytes: &[u8]) -> u32 {
    if bytes.len() <= MOST_SHORT_LEN {
        // The library takes the register as it is before bits are reflected.
        let mut digest = TABLES.digest_with_initial((!crc).reverse_bits());
        digest.update(bytes);
        return digest.finalize();
    }
    let mut hasher = crc32fast::Hasher::new_with_initial(crc);
    hasher.update(bytes);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_and_any_cut_give_the_same() {
        let bytes: Vec<u8> = (0..600_u32).map(|n| ((n * 7919) >> 3) as u8).collect();
        assert_eq!(continued(0, b"123456789"), 0xcbf4_3926, "the check value of CRC-32/ISO-HDLC");
        for len in [0, 1, 15, 16, 17, 255, 256, 257, 600] {
            let whole = crc32fast::hash(&bytes[..len]);
            assert_eq!(continued(0, &bytes[..len]), whole, "{len}");
            for cut in [0, 1, 4, 8, 300] {
                let (head, tail) = bytes[..len].split_at(cut.min(len));
                assert_eq!(continued(continued(0, head), tail), whole, "{len} cut at {cut}");
            }
        }
    }
}
