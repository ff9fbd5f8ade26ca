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

/// The CRC of what `salted` is the CRC of, followed by a frame's length, payload and trailer (`covered`).
///
/// Tables take 16 bytes at a time, and what is left over one by one, which for a frame of a few dozen bytes takes as long
/// as the rest. A register of zero stays zero over zeros, and any register is that of zero once it is added to the first
/// four bytes. So the odd bytes come first, behind zeros that fill up their block.
#[inline]
pub(super) fn of_frame(salted: u32, length: u32, covered: &[u8]) -> u32 {
    const BLOCK_LEN: usize = 16;
    const LENGTH_LEN: usize = size_of::<u32>();
    let odd = covered.len() % BLOCK_LEN;
    if covered.len() > MOST_SHORT_LEN {
        return continued(continued(salted, &length.to_le_bytes()), covered);
    }
    let (first, blocks) = covered.split_at(odd);
    let mut head = [0; 2 * BLOCK_LEN];
    let (zeros_and_length, end) = head.split_at_mut(2 * BLOCK_LEN - odd);
    end.copy_from_slice(first);
    if let Some(place) = zeros_and_length.last_chunk_mut::<LENGTH_LEN>() {
        *place = (length ^ !salted).to_le_bytes();
    }
    let is_one_block = odd + LENGTH_LEN <= BLOCK_LEN;
    let mut digest = TABLES.digest_with_initial(0);
    digest.update(if is_one_block { head.split_at(BLOCK_LEN).1 } else { &head });
    digest.update(blocks);
    digest.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_frame_is_that_of_its_parts_one_after_another() {
        let bytes: Vec<u8> = (0..600_u32).map(|n| ((n * 7919) >> 3) as u8).collect();
        for len in 0..bytes.len() {
            for (salted, length) in [(0, 0), (0xcbf4_3926, len as u32), (u32::MAX, 0x0102_0304), (1, u32::MAX)] {
                let whole = continued(continued(salted, &length.to_le_bytes()), &bytes[..len]);
                assert_eq!(of_frame(salted, length, &bytes[..len]), whole, "{len} {salted} {length}");
            }
        }
    }

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
