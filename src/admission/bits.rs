//! A set of small numbers.

/// A set of numbers below a fixed bound. Its least member is found 64 numbers at a time; nothing
/// is allocated after it was made.
#[derive(Debug)]
pub(super) struct Bits(Box<[u64]>);

impl Bits {
    /// The empty set of numbers below `bound`.
    pub(super) fn new(bound: u32) -> Bits {
        Bits(vec![0; (bound as usize).div_ceil(64)].into_boxed_slice())
    }

    #[inline]
    pub(super) fn insert(&mut self, member: u32) {
        self.0[(member / 64) as usize] |= 1 << (member % 64);
    }

    #[inline]
    pub(super) fn remove(&mut self, member: u32) {
        self.0[(member / 64) as usize] &= !(1 << (member % 64));
    }

    /// The least member.
    #[inline]
    pub(super) fn first(&self) -> Option<u32> {
        least(self.0.iter().copied())
    }

    /// The least member that is in `other`, too.
    #[inline]
    pub(super) fn first_also_in(&self, other: &Bits) -> Option<u32> {
        least(self.0.iter().zip(&other.0).map(|(own, other)| own & other))
    }

    /// Takes in all of `other`.
    pub(super) fn insert_all(&mut self, other: &Bits) {
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            *own |= other;
        }
    }

    /// Takes out all of `other`.
    pub(super) fn remove_all(&mut self, other: &Bits) {
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            *own &= !other;
        }
    }
}

#[inline]
fn least(mut words: impl Iterator<Item = u64>) -> Option<u32> {
    let mut before = 0;
    words.find_map(|word| {
        let member = (word != 0).then(|| before + word.trailing_zeros());
        before += 64;
        member
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_member_is_found_across_words() {
        let mut odd = Bits::new(200);
        let mut high = Bits::new(200);
        for n in (1..200).step_by(2) {
            odd.insert(n);
        }
        for n in 130..200 {
            high.insert(n);
        }
        assert_eq!(odd.first(), Some(1));
        assert_eq!(odd.first_also_in(&high), Some(131));
        odd.remove_all(&high);
        assert_eq!(odd.first_also_in(&high), None);
        odd.insert_all(&high);
        assert_eq!(odd.first_also_in(&high), Some(130));
        odd.remove(130);
        assert_eq!(odd.first_also_in(&high), Some(131));
        assert_eq!(Bits::new(0).first(), None);
    }
}
