//! The format on disk: the one authority.
//!
//! All integers are little-endian. Nothing here does I/O.
//!
//! # Segment
//!
//! ```text
//! 0        8        12         16         20       36       44     52        60    64
//! | magic  | version| features | capacity | log id | number | salt | created | CRC | frames ...
//! ```
//!
//! *capacity* is the length in bytes that the segment can use, header included. *log id* is random and the same in
//! every segment of a log, *salt* is random and fresh in each. *created* is in microseconds since the epoch (UTC). The
//! CRC covers the 60 bytes before it. A segment whose header does not check out is one gap.
//!
//! # Frame
//!
//! ```text
//! 0     1     2       6       10
//! | FF  | 48  | length| CRC   | payload (length bytes) | C1 |
//! ```
//!
//! A frame is valid if and only if
//! - its marker is `FF 48` (0xFF never occurs in UTF-8, so no frame hides in a name),
//! - its length lies in `1..=max_payload_len(capacity)`,
//! - its last byte is 0xC1, which MessagePack never uses: a frame that was cut short is completed neither by the zeros
//!   of a seal nor by the marker of the frame behind it,
//! - its CRC is the one of salt, length, payload and trailer (so a frame of another segment is not valid in this one),
//! - and it ends within the capacity and within the file.
//!
//! CRC is CRC-32 (IEEE 802.3, reflected, as in zlib). The payload is described in [`crate::event::batch`].
//!
//! # Checkpoint
//!
//! ```text
//! 0        8        12       28       36    40
//! | magic  | version| log id | length | CRC | state (length bytes) |
//! ```
//!
//! The CRC covers everything but itself. The state is described in [`crate::view::State`]; no bytes at all are the empty
//! state, which is `checkpoint-0`.

use crate::log::crc;

/// First bytes of a segment.
pub const SEGMENT_MAGIC: [u8; 8] = *b"HLOGSEG\n";
/// First bytes of a checkpoint.
pub const CHECKPOINT_MAGIC: [u8; 8] = *b"HLOGCKP\n";
/// The format that this program writes, and the newest that it reads.
pub const VERSION: u32 = 1;
/// Feature bits that this program knows: none yet. A segment with another bit is of a newer format.
pub const KNOWN_FEATURES: u32 = 0;

/// Bytes before the state of a checkpoint.
pub const CHECKPOINT_HEADER_LEN: usize = 40;
/// Bytes before the first frame of a segment.
pub const SEGMENT_HEADER_LEN: usize = 64;
/// Where frames begin.
pub const FIRST_FRAME_OFFSET: u64 = SEGMENT_HEADER_LEN as u64;

/// How a frame begins.
pub const MARKER: [u8; 2] = [0xff, 0x48];
/// How a frame ends.
pub const TRAILER: u8 = 0xc1;
/// Marker, length and CRC.
pub const FRAME_HEADER_LEN: usize = 10;
/// What a frame adds to its payload.
pub const FRAME_OVERHEAD_LEN: usize = FRAME_HEADER_LEN + 1;
/// The smallest frame. Fewer bytes at the end of a segment are padding.
pub const MIN_FRAME_LEN: usize = FRAME_OVERHEAD_LEN + 1;

/// The smallest capacity of a segment, in bytes.
pub const MIN_CAPACITY: u32 = 4 << 10;
/// The largest capacity of a segment, in bytes: a reader may hold that much in memory.
pub const MAX_CAPACITY: u32 = 256 << 20;
/// The capacity of a log that nobody chose another for, in bytes.
pub const DEFAULT_CAPACITY: u32 = 4 << 20;
/// No payload is longer, whatever the capacity.
pub const MAX_PAYLOAD_LEN: usize = 1 << 20;

const _: () = assert!(MARKER[1] != 0 && MARKER[1] != TRAILER && MARKER[1] != 0xff);
const _: () = assert!(SEGMENT_HEADER_LEN < MIN_CAPACITY as usize / 4);
// Every frame that may be written fits into an empty segment.
const _: () = assert!(max_payload_len(MIN_CAPACITY) + FRAME_OVERHEAD_LEN + SEGMENT_HEADER_LEN <= MIN_CAPACITY as usize);

/// The longest payload in a segment of this capacity: 1 MiB or a quarter of the capacity.
#[must_use]
pub const fn max_payload_len(capacity: u32) -> usize {
    let quarter = capacity as usize / 4;
    if quarter < MAX_PAYLOAD_LEN { quarter } else { MAX_PAYLOAD_LEN }
}

/// What a segment says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Length that the segment can use, in bytes, header included.
    pub capacity: u32,
    /// The same in the whole log.
    pub log_id: [u8; 16],
    /// The segment's number, which is also its name.
    pub number: u64,
    /// Fresh in each segment; part of every frame's CRC.
    pub salt: u64,
    /// Microseconds since the epoch (UTC).
    pub created: u64,
}

/// Why a header is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadHeader {
    /// It does not check out: damaged, cut off, or never written.
    Damaged,
    /// It checks out, and its version or features are newer than this program.
    Newer {
        /// The version it carries.
        version: u32,
    },
}

impl SegmentHeader {
    /// The 64 bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; SEGMENT_HEADER_LEN] {
        let mut bytes = Vec::with_capacity(SEGMENT_HEADER_LEN);
        bytes.extend_from_slice(&SEGMENT_MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&KNOWN_FEATURES.to_le_bytes());
        bytes.extend_from_slice(&self.capacity.to_le_bytes());
        bytes.extend_from_slice(&self.log_id);
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&self.salt.to_le_bytes());
        bytes.extend_from_slice(&self.created.to_le_bytes());
        bytes.extend_from_slice(&crc::continued(0, &bytes).to_le_bytes());
        bytes.try_into().unwrap_or([0; SEGMENT_HEADER_LEN])
    }

    /// Reads the first bytes of a segment's file, however many there are.
    ///
    /// # Errors
    /// [`BadHeader`]
    pub fn decode(bytes: &[u8]) -> Result<SegmentHeader, BadHeader> {
        let mut fields = Fields(bytes.get(..SEGMENT_HEADER_LEN).ok_or(BadHeader::Damaged)?);
        let covered = bytes.get(..SEGMENT_HEADER_LEN - 4).ok_or(BadHeader::Damaged)?;
        let magic: [u8; 8] = fields.take();
        let version = u32::from_le_bytes(fields.take());
        let features = u32::from_le_bytes(fields.take());
        let header = SegmentHeader {
            capacity: u32::from_le_bytes(fields.take()),
            log_id: fields.take(),
            number: u64::from_le_bytes(fields.take()),
            salt: u64::from_le_bytes(fields.take()),
            created: u64::from_le_bytes(fields.take()),
        };
        if magic != SEGMENT_MAGIC || u32::from_le_bytes(fields.take()) != crc::continued(0, covered) {
            return Err(BadHeader::Damaged);
        }
        if version > VERSION || features & !KNOWN_FEATURES != 0 {
            return Err(BadHeader::Newer { version });
        }
        if !(MIN_CAPACITY..=MAX_CAPACITY).contains(&header.capacity) {
            return Err(BadHeader::Damaged);
        }
        Ok(header)
    }
}

/// The header of a frame before anything of it is believed.
#[derive(Clone, Copy, Debug)]
pub struct UnverifiedHeader {
    /// Whether it begins with [`MARKER`].
    pub marked: bool,
    /// Length of the payload, as claimed.
    pub payload_len: u32,
    /// CRC, as claimed.
    pub crc: u32,
}

impl UnverifiedHeader {
    /// Reads ten bytes. What a file lacks, up to the capacity, counts as zeros.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> UnverifiedHeader {
        let mut whole = [0; FRAME_HEADER_LEN];
        for (to, from) in whole.iter_mut().zip(bytes) {
            *to = *from;
        }
        let mut fields = Fields(&whole);
        UnverifiedHeader {
            marked: fields.take() == MARKER,
            payload_len: u32::from_le_bytes(fields.take()),
            crc: u32::from_le_bytes(fields.take()),
        }
    }

    /// The whole frame's length, as claimed.
    #[must_use]
    pub fn frame_len(&self) -> u64 {
        u64::from(self.payload_len) + FRAME_OVERHEAD_LEN as u64
    }

    /// Whether a frame of this length may be in a segment of this capacity.
    #[must_use]
    pub fn is_plausible(&self, capacity: u32) -> bool {
        self.marked && self.payload_len > 0 && self.payload_len as usize <= max_payload_len(capacity)
    }
}

/// Frames of one segment: its salt and capacity.
#[derive(Clone, Debug)]
pub struct FrameCodec {
    /// The CRC of the salt.
    salted: u32,
    capacity: u32,
}

impl FrameCodec {
    /// The codec of a segment.
    #[must_use]
    pub fn new(header: &SegmentHeader) -> FrameCodec {
        FrameCodec { salted: crc::continued(0, &header.salt.to_le_bytes()), capacity: header.capacity }
    }

    /// Appends the frame around `payload` to `out`. The payload's length was checked by the writer.
    pub fn encode(&self, payload: &[u8], out: &mut Vec<u8>) {
        let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        out.extend_from_slice(&MARKER);
        out.extend_from_slice(&length.to_le_bytes());
        let crc_at = out.len();
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(payload);
        out.push(TRAILER);
        let crc = crc::of_frame(self.salted, length, out.get(crc_at + 4..).unwrap_or_default());
        if let Some(place) = out.get_mut(crc_at..crc_at + 4) {
            place.copy_from_slice(&crc.to_le_bytes());
        }
    }

    /// The payload of the frame that `bytes` begin with, if there is a valid one. `bytes` end at the capacity or the
    /// end of the file.
    #[must_use]
    #[inline]
    pub fn decode<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let header = UnverifiedHeader::decode(bytes.get(..FRAME_HEADER_LEN)?);
        if !header.is_plausible(self.capacity) {
            return None;
        }
        let payload_len = header.payload_len as usize;
        let covered = bytes.get(FRAME_HEADER_LEN..=FRAME_HEADER_LEN + payload_len)?;
        let (payload, trailer) = covered.split_at_checked(payload_len)?;
        if trailer != [TRAILER] {
            return None;
        }
        let crc = crc::of_frame(self.salted, header.payload_len, covered);
        (crc == header.crc).then_some(payload)
    }

    /// The segment's capacity.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.capacity
    }
}

/// Takes fixed-size fields off the front; zeros where the bytes end.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let Some((field, rest)) = self.0.split_first_chunk::<N>() else { return [0; N] };
        self.0 = rest;
        *field
    }
}

/// Wraps the state of a checkpoint.
#[must_use]
pub fn encode_checkpoint(log_id: [u8; 16], state: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(CHECKPOINT_HEADER_LEN + state.len());
    bytes.extend_from_slice(&CHECKPOINT_MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&log_id);
    bytes.extend_from_slice(&(state.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&checkpoint_crc(&bytes, state).to_le_bytes());
    bytes.extend_from_slice(state);
    bytes
}

/// Unwraps log id and state of a checkpoint.
///
/// # Errors
/// [`BadHeader`]
pub fn decode_checkpoint(bytes: &[u8]) -> Result<([u8; 16], &[u8]), BadHeader> {
    let (head, rest) = bytes.split_at_checked(CHECKPOINT_HEADER_LEN - 4).ok_or(BadHeader::Damaged)?;
    let (crc, state) = rest.split_at_checked(4).ok_or(BadHeader::Damaged)?;
    let mut fields = Fields(head);
    let magic: [u8; 8] = fields.take();
    let version = u32::from_le_bytes(fields.take());
    let log_id = fields.take();
    let length = u64::from_le_bytes(fields.take());
    let crc = u32::from_le_bytes(Fields(crc).take());
    if magic != CHECKPOINT_MAGIC || length != state.len() as u64 || crc != checkpoint_crc(head, state) {
        return Err(BadHeader::Damaged);
    }
    if version > VERSION { Err(BadHeader::Newer { version }) } else { Ok((log_id, state)) }
}

fn checkpoint_crc(head: &[u8], state: &[u8]) -> u32 {
    crc::continued(crc::continued(0, head), state)
}
