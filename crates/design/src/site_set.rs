//! Sets of sites: a word of a bitmap, a few numbers, or the whole bitmap on the heap.
//!
//! *Problem.* The router finds the sites that could serve each item of a footprint, and intersects
//! these sets:
//!
//! ```text
//!   write accounts[5]        master s2                  {s2}
//!   read  accounts[12]       master s1, replica s2      {s1 s2}
//!   read  orders[3]          master s900, replica s2    {s2 s900}
//!   all of it                                           {s2}
//! ```
//!
//! Every partition has such a set, and there may be ten million of them. A bitmap of all possible
//! sites takes 128 bytes; one word is enough for 64 sites only.
//!
//! *Solution.* Most sets fit into two words, in one of two forms. With site *n* as bit *n* − 1,
//! sites of the same block of 64 are one word and its index in the bitmap. A database of up to 64
//! sites has no other sets, and intersects them with one `and`. A few sites in different blocks are
//! a list of numbers. Only larger sets need the heap:
//!
//! ```text
//!   Word   block 14 │ 0000…0001 0000 0000          s905, among s897 to s960
//!   Few    2  900  0  0  0  0  0                   s2 s900; zeros behind the last
//!   Many   ──▶ 1011…  0000…  …                     all 16 words: 1024 sites
//! ```
//!
//! *Invariant.* A set has the first of these forms that can express it: word, few, many. So equal
//! sets have equal forms.

use crate::SiteId;
use std::fmt;
use std::ops::{BitAnd, BitOr, Sub};
use std::slice;

/// The most sites of one database. Sites are numbered from 1 to this. The number of a removed site
/// may be reused.
pub const SITES_MAX: u16 = 1024;

/// The numbers that fit beside the tag of the form.
const FEW: usize = 7;
const WORD_BITS: u16 = 64;
const WORDS: usize = (SITES_MAX / WORD_BITS) as usize;

/// A set of sites, in the order of their numbers.
///
/// ```
/// use isomer_design::{SiteId, SiteSet};
/// let writers = SiteSet::from_iter([SiteId(2)]);
/// let readers = SiteSet::from_iter([SiteId(400), SiteId(2)]);
/// assert_eq!((&writers & &readers).to_string(), "s2");
/// assert_eq!((&writers | &readers).to_string(), "s2 s400");
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SiteSet(Form);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Form {
    /// One word of the bitmap, and its index; that of the empty set is 0.
    Word(u8, u64),
    /// In order; zeros after the last.
    Few([u16; FEW]),
    Many(Box<[u64; WORDS]>),
}
use Form::{Few, Many, Word};

impl SiteSet {
    /// No site.
    pub const EMPTY: SiteSet = SiteSet(Word(0, 0));

    /// True if a site may have this number: 1 to [`SITES_MAX`].
    #[inline]
    pub fn can_hold(site: SiteId) -> bool {
        (1..=SITES_MAX).contains(&site.0)
    }

    /// The set of one site, or the empty set if the number is out of range.
    #[inline]
    pub fn of(site: SiteId) -> SiteSet {
        let (block, bit) = place(site);
        if SiteSet::can_hold(site) { SiteSet(Word(block as u8, bit)) } else { SiteSet::EMPTY }
    }

    /// True if `site` is in the set.
    #[inline]
    pub fn contains(&self, site: SiteId) -> bool {
        let (block, bit) = place(site);
        match &self.0 {
            Word(at, word) => usize::from(*at) == block && word & bit != 0,
            Few(few) => site.0 != 0 && few.contains(&site.0),
            Many(words) => words.get(block).is_some_and(|word| word & bit != 0),
        }
    }

    /// True if every site of `other` is in the set.
    pub fn covers(&self, other: &SiteSet) -> bool {
        (other - self).is_empty()
    }

    /// Adds a site.
    ///
    /// # Panics
    /// If the number is out of range ([`SiteSet::can_hold`]): ignoring it would lose a site.
    #[inline]
    pub fn insert(&mut self, site: SiteId) {
        assert!(SiteSet::can_hold(site), "{site} is no site: sites are s1 to s{SITES_MAX}");
        let (block, bit) = place(site);
        match &mut self.0 {
            Word(at, word) if usize::from(*at) == block || *word == 0 => {
                *at = block as u8;
                *word |= bit;
            }
            Many(words) => words[block] |= bit,
            _ => self.insert_apart(site),
        }
    }

    /// Adds a site that does not belong to the word of the others.
    fn insert_apart(&mut self, site: SiteId) {
        if self.contains(site) {
            return;
        }
        *self = match self.len() {
            0..FEW => {
                let before = self.iter().take_while(|other| *other < site);
                let after = self.iter().skip_while(|other| *other < site);
                SiteSet::of_few(before.chain([site]).chain(after))
            }
            _ => self.zip_all(&SiteSet::of(site), |a, b| a | b),
        }
    }

    /// The set with `site` in it.
    ///
    /// # Panics
    /// As [`SiteSet::insert`].
    #[must_use]
    pub fn with(mut self, site: SiteId) -> SiteSet {
        self.insert(site);
        self
    }

    /// The set without `site`.
    #[must_use]
    pub fn without(&self, site: SiteId) -> SiteSet {
        self - &SiteSet::of(site)
    }

    /// Keeps the sites that are in `other` or equal `or`. In place, because routing does this for
    /// every item.
    #[inline]
    pub(crate) fn retain(&mut self, other: &SiteSet, or: SiteId) {
        match (&mut self.0, &other.0) {
            (Word(ours, word), Word(theirs, others)) => {
                let others = if ours == theirs { *others } else { 0 };
                let (block, bit) = place(or);
                *word &= others | if block == usize::from(*ours) { bit } else { 0 };
                *ours = if *word == 0 { 0 } else { *ours };
            }
            (Few(_), _) => *self = self.filter(|site| site == or || other.contains(site)),
            _ => *self = &*self & &other.clone().with(or),
        }
    }

    /// The number of sites.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.0 {
            Few(few) => few.iter().filter(|&&number| number != 0).count(),
            _ => self.bitmap().1.iter().map(|word| word.count_ones() as usize).sum(),
        }
    }

    /// True if no site is in the set.
    #[inline]
    pub fn is_empty(&self) -> bool {
        matches!(self.0, Word(_, 0))
    }

    /// The site with the lowest number.
    #[inline]
    pub fn first(&self) -> Option<SiteId> {
        self.after(0)
    }

    /// The site at an index in the order of the numbers.
    pub fn nth(&self, mut index: usize) -> Option<SiteId> {
        let (first, words) = self.bitmap();
        let mut before = first * WORD_BITS;
        // Whole words are skipped.
        for count in words.iter().map(|word| word.count_ones() as usize) {
            if index < count {
                break;
            }
            index -= count;
            before += WORD_BITS;
        }
        std::iter::successors(self.after(before), |site| self.after(site.0)).nth(index)
    }

    /// The sites in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = SiteId> + Clone {
        std::iter::successors(self.first(), |site| self.after(site.0))
    }

    /// The memory held outside the value itself, in bytes.
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            Many(words) => size_of_val(&**words),
            _ => 0,
        }
    }

    /// The first site whose number is greater.
    #[inline]
    fn after(&self, number: u16) -> Option<SiteId> {
        if let Few(few) = &self.0 {
            return few.iter().find(|&&other| other > number).map(|&other| SiteId(other));
        }
        let (first, words) = self.bitmap();
        for (word, block) in words.iter().zip(first..) {
            let passed = number.saturating_sub(block * WORD_BITS);
            let rest = if passed < WORD_BITS { word >> passed << passed } else { 0 };
            if rest != 0 {
                return Some(SiteId(block * WORD_BITS + rest.trailing_zeros() as u16 + 1));
            }
        }
        None
    }

    /// The index of the first word, and the words; no words for `Few`.
    #[inline]
    fn bitmap(&self) -> (u16, &[u64]) {
        match &self.0 {
            Word(block, word) => (u16::from(*block), slice::from_ref(word)),
            Few(_) => (0, &[]),
            Many(words) => (0, &words[..]),
        }
    }

    /// The set as a bitmap.
    fn words(&self) -> [u64; WORDS] {
        let mut all = [0; WORDS];
        if let Few(few) = &self.0 {
            let few = few.iter().take_while(|&&number| number != 0);
            few.map(|&number| place(SiteId(number))).for_each(|(block, bit)| all[block] |= bit);
        }
        let (first, words) = self.bitmap();
        all[usize::from(first)..][..words.len()].copy_from_slice(words);
        all
    }

    fn of_words(words: [u64; WORDS]) -> SiteSet {
        let mut used = (0..).zip(words).filter(|(_, word)| *word != 0);
        let (block, word) = used.next().unwrap_or_default();
        if used.next().is_none() {
            return SiteSet(Word(block, word));
        }
        let many = SiteSet(Many(Box::new(words)));
        if many.len() > FEW { many } else { SiteSet::of_few(many.iter()) }
    }

    /// The set of at most [`FEW`] sites, in order.
    fn of_few(sites: impl Iterator<Item = SiteId>) -> SiteSet {
        let (mut few, mut word, mut blocks) = ([0; FEW], 0, (usize::MAX, 0));
        for (number, site) in few.iter_mut().zip(sites) {
            let (block, bit) = place(site);
            *number = site.0;
            word |= bit;
            blocks = (blocks.0.min(block), block);
        }
        match blocks {
            _ if few[0] == 0 => SiteSet::EMPTY,
            (first, last) if first == last => SiteSet(Word(first as u8, word)),
            _ => SiteSet(Few(few)),
        }
    }

    /// Combines words. Usually both sets have a single one.
    #[inline]
    fn zip(&self, other: &SiteSet, combine: fn(u64, u64) -> u64) -> SiteSet {
        match (&self.0, &other.0) {
            (Word(ours, a), Word(theirs, b)) if ours == theirs => {
                let word = combine(*a, *b);
                SiteSet(Word(if word == 0 { 0 } else { *ours }, word))
            }
            _ => self.zip_all(other, combine),
        }
    }

    #[cold]
    #[inline(never)]
    fn zip_all(&self, other: &SiteSet, combine: fn(u64, u64) -> u64) -> SiteSet {
        let (ours, theirs) = (self.words(), other.words());
        SiteSet::of_words(std::array::from_fn(|at| combine(ours[at], theirs[at])))
    }

    /// The sites for which `keeps` is true; the set is `Few`.
    #[inline(never)]
    fn filter(&self, keeps: impl Fn(SiteId) -> bool) -> SiteSet {
        SiteSet::of_few(self.iter().filter(|site| keeps(*site)))
    }
}

/// The word and the bit of a site in a bitmap; beyond all words if the number is out of range.
#[inline]
fn place(site: SiteId) -> (usize, u64) {
    let before = site.0.wrapping_sub(1);
    (usize::from(before / WORD_BITS), 1 << (before % WORD_BITS))
}

impl Default for SiteSet {
    fn default() -> SiteSet {
        SiteSet::EMPTY
    }
}

/// # Panics
/// As [`SiteSet::insert`], if a number is out of range.
impl FromIterator<SiteId> for SiteSet {
    fn from_iter<I: IntoIterator<Item = SiteId>>(sites: I) -> SiteSet {
        sites.into_iter().fold(SiteSet::EMPTY, SiteSet::with)
    }
}

impl BitOr for &SiteSet {
    type Output = SiteSet;
    #[inline]
    fn bitor(self, other: &SiteSet) -> SiteSet {
        self.zip(other, |a, b| a | b)
    }
}

impl BitAnd for &SiteSet {
    type Output = SiteSet;
    #[inline]
    fn bitand(self, other: &SiteSet) -> SiteSet {
        match (&self.0, &other.0) {
            (Word(ours, _), Word(theirs, _)) if ours != theirs => SiteSet::EMPTY,
            (Few(_), _) => self.filter(|site| other.contains(site)),
            (_, Few(_)) => other.filter(|site| self.contains(site)),
            _ => self.zip(other, |a, b| a & b),
        }
    }
}

impl Sub for &SiteSet {
    type Output = SiteSet;
    #[inline]
    fn sub(self, other: &SiteSet) -> SiteSet {
        self.zip(other, |a, b| a & !b)
    }
}

/// `s1 s3`; the empty set prints as nothing.
impl fmt::Display for SiteSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, site) in self.iter().enumerate() {
            write!(f, "{}{site}", if index > 0 { " " } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Debug for SiteSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn sets_hold_the_first_and_the_last_site() {
        let ends = SiteSet::from_iter([SiteId(SITES_MAX), SiteId(1)]);
        assert_eq!((ends.len(), ends.to_string().as_str()), (2, "s1 s1024"));
        assert_eq!(ends.without(SiteId(1)).first(), Some(SiteId(SITES_MAX)));
        assert!(ends.contains(SiteId(1024)) && !ends.contains(SiteId(2)));
        let all: SiteSet = (1..=SITES_MAX).map(SiteId).collect();
        assert_eq!((all.len(), all.iter().last()), (1024, Some(SiteId(SITES_MAX))));
    }

    #[test]
    fn numbers_out_of_range_are_in_no_set() {
        let all: SiteSet = (1..=SITES_MAX).map(SiteId).collect();
        for site in [SiteId(0), SiteId(SITES_MAX + 1), SiteId(u16::MAX)] {
            assert!(!all.contains(site) && SiteSet::of(site).is_empty());
            assert!(!SiteSet::of(SiteId(1)).contains(site));
            assert_eq!(all.without(site), all);
        }
    }

    #[test]
    #[should_panic(expected = "s0 is no site: sites are s1 to s1024")]
    fn adding_a_number_out_of_range_is_the_callers_mistake() {
        let _ = SiteSet::EMPTY.with(SiteId(0));
    }

    #[test]
    fn ten_million_placements_fit() {
        assert_eq!((size_of::<SiteSet>(), size_of::<crate::Placement>()), (16, 24));
    }

    /// Sets of both forms, and what lies between, beside sets of the standard library.
    #[test]
    fn small_and_large_sets_are_sets() {
        let mut state = 7_u64;
        let mut number = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as u16
        };
        let mut some = || -> BTreeSet<SiteId> {
            let (count, among) = (number() % 20, [12, 70, SITES_MAX][usize::from(number() % 3)]);
            (0..count).map(|_| SiteId(number() % among + 1)).collect()
        };
        let set = |sites: &BTreeSet<SiteId>| SiteSet::from_iter(sites.iter().copied());
        for _ in 0..5000 {
            let (a, b) = (some(), some());
            let (ours, theirs) = (set(&a), set(&b));
            assert!(ours.iter().eq(a.iter().copied()) && ours.len() == a.len());
            assert_eq!(&ours & &theirs, set(&(&a & &b)), "{a:?} and {b:?}");
            let mut kept = ours.clone();
            kept.retain(&theirs, SiteId(3));
            assert_eq!(kept, &ours & &theirs.clone().with(SiteId(3)), "{a:?} and {b:?} or s3");
            assert_eq!(&ours | &theirs, set(&(&a | &b)), "{a:?} or {b:?}");
            assert_eq!(&ours - &theirs, set(&(&a - &b)), "{a:?} less {b:?}");
            assert_eq!(ours.covers(&theirs), a.is_superset(&b));
            assert!(b.iter().all(|site| ours.contains(*site) == a.contains(site)));
            let first = a.first().copied();
            assert_eq!((ours.first(), ours.is_empty()), (first, a.is_empty()));
            assert!((0..a.len() + 2).all(|at| ours.nth(at) == a.iter().nth(at).copied()));
        }
    }
}
