// SPDX-License-Identifier: GPL-2.0

//! `MemTable` against a search that looks at every region.

use proptest::prelude::*;
use vring::{Error, GuestAddr, Hint, MemTable, Region, UserAddr};
use vring_model::oracle::{first_overlap, pieces, Miss};
use vring_model::ram::Area;
use vring_model::ring::Segs;

/// Addresses around which regions begin, end and are looked up.
const ANCHORS: [u64; 9] = [
    0,
    0x1000,
    0x2000,
    0x3000,
    1 << 32,
    1 << 63,
    u64::MAX - 0x2fff,
    u64::MAX - 0xfff,
    u64::MAX,
];

fn addr() -> impl Strategy<Value = u64> {
    let near = (prop::sample::select(&ANCHORS[..]), 0u64..5)
        .prop_map(|(anchor, off)| anchor.wrapping_add(off).wrapping_sub(2));
    prop_oneof![8 => near, 1 => any::<u64>()]
}

fn size() -> impl Strategy<Value = u64> {
    const SIZES: [u64; 11] = [
        0u64,
        1,
        2,
        0xffe,
        0xfff,
        0x1000,
        0x1001,
        0x2000,
        0x3000,
        1 << 32,
        1 << 63,
    ];
    prop_oneof![6 => prop::sample::select(&SIZES[..]), 1 => any::<u64>()]
}

/// Regions as a guest may give them: in any order, overlapping, doubled, up to the last byte.
fn areas() -> impl Strategy<Value = Vec<Area>> {
    let any = prop::collection::vec((addr(), size()), 0..12);
    let apart = prop::collection::vec((1u64..0x2000, 0u64..0x2000), 0..40).prop_map(|steps| {
        let mut at = 0;
        let mut list = Vec::new();
        for (size, gap) in steps {
            // Half of them touch the one before.
            list.push((at, size));
            at += size + if gap % 2 == 0 { 0 } else { gap };
        }
        list.reverse();
        list
    });
    let whole = Just(vec![(0, 0)]);
    prop_oneof![6 => any, 3 => apart, 1 => whole].prop_map(|list| {
        let areas = list
            .into_iter()
            .enumerate()
            .filter_map(|(i, (start, size))| {
                let last = start.wrapping_add(size).wrapping_sub(1);
                let user = (i as u64 + 1) << 44;
                let area = Area {
                    start,
                    last,
                    user,
                    readable: true,
                    writable: true,
                };
                (last >= start).then_some(area)
            });
        areas.collect()
    })
}

fn region(area: &Area) -> Region {
    let size = (area.last - area.start).wrapping_add(1);
    Region::new(GuestAddr::new(area.start), size, UserAddr::new(area.user)).expect("a legal region")
}

fn table(areas: &[Area]) -> MemTable<Vec<Region>> {
    MemTable::new(areas.iter().map(region).collect())
}

/// A query at the edge of a region, as often as one anywhere.
fn pick(areas: &[Area], at: u64, edge: Option<(usize, u64)>) -> u64 {
    match edge {
        Some((i, off)) if !areas.is_empty() => {
            let area = areas[i % areas.len()];
            let from = if i % 2 == 0 { area.start } else { area.last };
            from.wrapping_add(off).wrapping_sub(2)
        }
        _ => at,
    }
}

type Query = (u64, Option<(usize, u64)>, u64, u32);

fn queries() -> impl Strategy<Value = Vec<Query>> {
    let edge = prop::option::weighted(0.6, (any::<usize>(), 0u64..5));
    let len = prop_oneof![
        Just(0u32),
        1u32..4,
        Just(0xfff),
        Just(0x1000),
        1u32..0x8000,
        Just(u32::MAX),
    ];
    prop::collection::vec((addr(), edge, size(), len), 1..40)
}

proptest! {
    #![proptest_config(vring_proptest::config())]

    #[test]
    fn a_region_is_refused_if_it_passes_the_end(start in addr(), size in size(), user in any::<u64>()) {
        let got = Region::new(GuestAddr::new(start), size, UserAddr::new(user));
        let end = u128::from(start) + u128::from(size);
        if (size == 0 && start == 0) || (size > 0 && end <= 1 << 64) {
            let region = got.expect("a legal region");
            prop_assert_eq!(region.start().get(), start);
            prop_assert_eq!(region.last().get(), start.wrapping_add(size).wrapping_sub(1));
            prop_assert_eq!(region.user().get(), user);
            prop_assert_eq!(region.size(), (size != 0).then_some(size));
        } else {
            let want = Error::Region { start: GuestAddr::new(start), size };
            prop_assert_eq!(got.err(), Some(want));
        }
    }

    #[test]
    fn lookup_finds_the_leftmost_overlap(areas in areas(), queries in queries()) {
        let table = table(&areas);
        prop_assert_eq!(table.regions().len(), areas.len());
        let mut hint = Hint::default();
        for (at, edge, span, _) in queries {
            let first = pick(&areas, at, edge);
            let last = first.saturating_add(span);
            let got = table.lookup(GuestAddr::new(first), last, &mut hint);
            let got = got.map(|r| (r.start().get(), r.last().get(), r.user().get()));
            let want = first_overlap(&areas, first, last).map(|i| areas[i]);
            prop_assert_eq!(got, want.map(|a| (a.start, a.last, a.user)), "{:x}..={:x}", first, last);
        }
    }

    #[test]
    fn translate_splits_as_the_plain_search_does(areas in areas(), queries in queries()) {
        let table = table(&areas);
        let mut hint = Hint::default();
        for (at, edge, _, len) in queries {
            let addr = pick(&areas, at, edge);
            let mut segs = Segs::new(64);
            let got = table.translate(GuestAddr::new(addr), len, &mut hint, &mut segs);
            let want: Result<Vec<_>, Miss> = pieces(&areas, addr, len, false).collect();
            match want {
                Ok(want) => {
                    prop_assert_eq!(got, Ok(want.len() as u32), "{:x} {:x}", addr, len);
                    prop_assert_eq!(segs.list, want);
                }
                Err(miss) => {
                    let Err(Error::Unmapped { addr: missing }) = got else {
                        return Err(TestCaseError::fail(format!("{got:?} for {miss:?}")));
                    };
                    let wraps = addr.checked_add(u64::from(len) - 1).is_none();
                    prop_assert!(wraps || miss == Miss::Hole(missing.get()), "{missing:?}, {miss:?}");
                }
            }
        }
    }

    #[test]
    fn a_full_sink_ends_the_translation(areas in areas(), queries in queries(), cap in 0usize..3) {
        let table = table(&areas);
        let mut hint = Hint::default();
        for (at, edge, _, len) in queries {
            let addr = pick(&areas, at, edge);
            let mut segs = Segs::new(cap);
            let got = table.translate(GuestAddr::new(addr), len, &mut hint, &mut segs);
            let want: Vec<_> = pieces(&areas, addr, len, false).take(cap + 1).collect();
            let full = want.len() > cap && want.iter().all(Result::is_ok);
            prop_assert_eq!(got == Err(Error::Segments), full);
            prop_assert!(segs.list.len() <= cap);
        }
    }
}
