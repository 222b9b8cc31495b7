// SPDX-License-Identifier: GPL-2.0

use std::vec;
use std::vec::Vec;

use super::*;
use crate::testing::Segs;

fn guest(addr: u64) -> GuestAddr {
    GuestAddr::new(addr)
}

fn region(start: u64, size: u64, user: u64) -> Region {
    Region::new(guest(start), size, UserAddr::new(user)).unwrap()
}

fn table(regions: &[(u64, u64, u64)]) -> MemTable<Vec<Region>> {
    let regions = regions
        .iter()
        .map(|&(start, size, user)| region(start, size, user));
    MemTable::new(regions.collect())
}

type Segments = Vec<(u64, usize)>;

fn translate<S>(table: &MemTable<S>, addr: u64, len: u32) -> (Result<u32, Error>, Segments)
where
    S: DerefMut<Target = [Region]>,
{
    let mut segs = Segs::new();
    let got = table.translate(guest(addr), len, &mut Hint::default(), &mut segs);
    (got, segs.list)
}

fn unmapped(addr: u64) -> Result<u32, Error> {
    Err(Error::Unmapped { addr: guest(addr) })
}

#[test]
fn region_bounds() {
    let refused = |start, size| {
        let err = Region::new(guest(start), size, UserAddr::new(0)).unwrap_err();
        assert_eq!(
            err,
            Error::Region {
                start: guest(start),
                size
            }
        );
    };
    refused(1, 0);
    refused(2, u64::MAX);
    refused(u64::MAX, 2);

    let top = region(u64::MAX - 0xfff, 0x1000, 0);
    assert_eq!((top.last(), top.size()), (guest(u64::MAX), Some(0x1000)));
    let most = region(1, u64::MAX, 0);
    assert_eq!(
        (most.last(), most.size()),
        (guest(u64::MAX), Some(u64::MAX))
    );
    let all = region(0, 0, 0);
    assert_eq!((all.last(), all.size()), (guest(u64::MAX), None));
}

#[test]
fn regions_are_sorted_and_ties_keep_their_order() {
    let table = table(&[
        (0x3000, 1, 1),
        (0x1000, 1, 2),
        (0x3000, 2, 3),
        (0x2000, 1, 4),
    ]);
    let users: Vec<u64> = table.regions().iter().map(|r| r.user().get()).collect();
    assert_eq!(users, [2, 4, 1, 3]);
}

#[test]
fn one_region_gives_one_segment() {
    let table = table(&[(0x1000, 0x1000, 0x5000)]);
    assert_eq!(
        translate(&table, 0x1000, 0x1000),
        (Ok(1), vec![(0x5000, 0x1000)])
    );
    assert_eq!(translate(&table, 0x1fff, 1), (Ok(1), vec![(0x5fff, 1)]));
}

#[test]
fn adjacent_regions_are_not_merged() {
    let table = table(&[(0, 0x10, 0x100), (0x10, 0x10, 0x110), (0x20, 0x10, 0x900)]);
    let segs = vec![(0x108, 8), (0x110, 0x10), (0x900, 4)];
    assert_eq!(translate(&table, 8, 0x1c), (Ok(3), segs));
}

#[test]
fn empty_buffer_has_no_segment_anywhere() {
    let table = table(&[(0, 0x10, 0x100)]);
    assert_eq!(translate(&table, 0, 0), (Ok(0), vec![]));
    assert_eq!(translate(&table, u64::MAX, 0), (Ok(0), vec![]));
}

#[test]
fn holes_are_reported_at_their_first_address() {
    let table = table(&[(0x10, 0x10, 0x100), (0x30, 0x10, 0x200)]);
    assert_eq!(translate(&table, 0x0f, 2), (unmapped(0x0f), vec![]));
    assert_eq!(
        translate(&table, 0x18, 0x20),
        (unmapped(0x20), vec![(0x108, 8)])
    );
    assert_eq!(translate(&table, 0x40, 1), (unmapped(0x40), vec![]));
    assert_eq!(
        translate(&MemTable::new(vec![]), 0, 1),
        (unmapped(0), vec![])
    );
}

#[test]
fn buffer_may_end_at_the_end_but_not_past_it() {
    let table = table(&[(u64::MAX - 0xf, 0x10, 0x100), (0, 0x10, 0x200)]);
    assert_eq!(
        translate(&table, u64::MAX - 3, 4),
        (Ok(1), vec![(0x10c, 4)])
    );
    assert_eq!(
        translate(&table, u64::MAX - 3, 5),
        (unmapped(u64::MAX - 3), vec![])
    );
}

#[test]
fn the_whole_space_is_one_region() {
    let table = table(&[(0, 0, 0x10)]);
    let at = u64::MAX - 0x20;
    assert_eq!(translate(&table, 0, 5), (Ok(1), vec![(0x10, 5)]));
    // The owner's addresses wrap, as those of the C twin do; the copy routines check them.
    assert_eq!(
        translate(&table, at, 0x21),
        (Ok(1), vec![(at.wrapping_add(0x10), 0x21)])
    );
}

#[test]
fn full_sink_ends_the_translation() {
    let table = table(&[(0, 0x10, 0x100), (0x10, 0x10, 0x200)]);
    let mut segs = Segs::new();
    segs.max = 1;
    let got = table.translate(guest(8), 0x10, &mut Hint::default(), &mut segs);
    assert_eq!((got, segs.list), (Err(Error::Segments), vec![(0x108, 8)]));
}

#[test]
fn overlapping_regions_the_first_one_wins() {
    // A long region under two short ones, one of them with the same start.
    let table = table(&[(0x20, 8, 0x300), (0x10, 0x40, 0x100), (0x10, 8, 0x200)]);
    assert_eq!(translate(&table, 0x10, 0x30), (Ok(1), vec![(0x100, 0x30)]));
    assert_eq!(translate(&table, 0x22, 1), (Ok(1), vec![(0x112, 1)]));
}

#[test]
fn a_hint_never_changes_the_answer() {
    let apart: &[_] = &[(0x10, 8, 0), (0x18, 8, 1), (0x40, 4, 2)];
    let nested: &[_] = &[(0x10, 0x20, 0), (0x10, 4, 1), (0x14, 4, 2), (0x38, 1, 3)];
    for regions in [apart, nested, &[]] {
        let table = table(regions);
        for (addr, last) in (0..0x50).flat_map(|a| (0..0x50).map(move |l| (a, l))) {
            let plain = table
                .regions()
                .iter()
                .find(|r| r.start().get() <= last && addr <= r.last().get());
            for at in 0..6 {
                let got = table.lookup(guest(addr), last, &mut Hint(at));
                assert_eq!(
                    got.map(Region::user),
                    plain.map(Region::user),
                    "{addr:#x} {last:#x}"
                );
            }
        }
    }
}

#[test]
fn a_hit_moves_the_hint() {
    let table = table(&[(0x10, 8, 0), (0x18, 8, 1)]);
    let mut hint = Hint::default();
    table.lookup(guest(0x18), 0x18, &mut hint);
    assert_eq!(hint.0, 1);
    table.lookup(guest(0x90), 0x90, &mut hint);
    assert_eq!(hint.0, 1);
}

#[test]
fn storage_may_be_a_borrowed_slice() {
    let mut regions = [region(0x10, 8, 0x100), region(0, 8, 0x200)];
    let table = MemTable::new(&mut regions[..]);
    assert_eq!(translate(&table, 4, 1), (Ok(1), vec![(0x204, 1)]));
}

#[test]
fn any_order_is_sorted() {
    // Each digit of `code` in base 4 is the start of a region; so there are many ties.
    for len in 0..7 {
        for code in 0..4_u64.pow(len) {
            let starts = (0..len).map(|place| code / 4_u64.pow(place) % 4);
            let given: Vec<_> = starts.zip(0_u64..).map(|(s, user)| (s, 1, user)).collect();
            let mut want = given.clone();
            want.sort_by_key(|(start, ..)| *start);

            let table = table(&given);
            let got = table.regions().iter();
            let got: Vec<_> = got.map(|r| (r.start().get(), 1, r.user().get())).collect();
            assert_eq!(got, want);
        }
    }
}
