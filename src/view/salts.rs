//! Salts of folded segments: how a follower tells a segment that is kept for it from one that a slow process created
//! again under its number.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// No more folded segments are kept for followers.
pub(crate) const MOST_RETAINED: usize = 256;

/// Salts of the newest segments that were folded, by number, ascending. Their room is made once: a view does not grow
/// with the log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Salts(Vec<(u64, u64)>);

impl Default for Salts {
    fn default() -> Salts {
        Salts(Vec::with_capacity(MOST_RETAINED + 1))
    }
}

impl Clone for Salts {
    fn clone(&self) -> Salts {
        let mut clone = Salts::default();
        clone.0.extend_from_slice(&self.0);
        clone
    }
}

impl Salts {
    pub(crate) fn insert(&mut self, number: u64, salt: u64) {
        match self.0.binary_search_by_key(&number, |(number, _)| *number) {
            Ok(at) => self.0.splice(at..=at, [(number, salt)]).for_each(drop),
            Err(at) => self.0.insert(at, (number, salt)),
        }
        if self.0.len() > MOST_RETAINED {
            self.0.remove(0);
        }
    }

    pub(crate) fn by_number(&self) -> BTreeMap<u64, u64> {
        self.0.iter().copied().collect()
    }
}

impl Serialize for Salts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().copied())
    }
}

impl<'de> Deserialize<'de> for Salts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Salts, D::Error> {
        let mut salts = Salts::default();
        BTreeMap::deserialize(deserializer)?.into_iter().for_each(|(number, salt)| salts.insert(number, salt));
        Ok(salts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_kept_by_number_and_read_back_and_take_no_more_room() {
        let mut salts = Salts::default();
        let room = salts.0.capacity();
        for number in (1..=1000).rev().chain(500..=1200) {
            salts.insert(number, number * 3);
        }
        salts.insert(1200, 7);
        let expected: BTreeMap<_, _> = (945..=1199).map(|number| (number, number * 3)).chain([(1200, 7)]).collect();
        assert_eq!((salts.by_number(), expected.len(), salts.0.capacity()), (expected, MOST_RETAINED, room));
        let bytes = rmp_serde::to_vec(&salts).unwrap();
        assert_eq!(bytes, rmp_serde::to_vec(&salts.by_number()).unwrap());
        let read: Salts = rmp_serde::from_slice(&bytes).unwrap();
        assert_eq!((&read, read.0.capacity()), (&salts, room));
        assert_eq!(read.clone().0.capacity(), room);
    }
}
