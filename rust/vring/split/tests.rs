// SPDX-License-Identifier: GPL-2.0

use std::vec::Vec;

use super::*;
use crate::layout::{AVAIL_IDX, DESC_SIZE, USED_FLAGS, USED_IDX, WRITE};
use crate::testing::{Mem, Op, Ram, Segs, GUEST};

mod ahead;
mod notify;

const LE: Endian = Endian::Little;

/// A device and a driver; descriptor `i` is a readable buffer of `i + 1` bytes.
struct Rig {
    mem: Mem,
    ring: Split,
}

impl Rig {
    fn new(num: u16) -> Self {
        Self::at(num, 0)
    }

    /// Makes a ring that stands at index `at` on both sides.
    fn at(num: u16, at: u16) -> Self {
        let mem = Mem::new(num, LE);
        for index in 0..num {
            mem.set_desc(index, GUEST, u32::from(index) + 1, 0, 0);
        }
        mem.set_avail16(AVAIL_IDX, at);
        mem.set_used16(USED_IDX, at);
        let mut ring = Split::new();
        ring.set_num(u32::from(num)).unwrap();
        ring.set_base(u32::from(at)).unwrap();
        ring.start(&mem, LE).unwrap();
        mem.trace();
        Self { mem, ring }
    }

    fn event_idx(mut self) -> Self {
        self.ring.set_features(Features {
            event_idx: true,
            ..Features::default()
        });
        self
    }

    fn pop(&mut self) -> Result<Option<u16>, Error> {
        let got = self.ring.pop(&self.mem, &mut Ram::new(), &mut Segs::new());
        Ok(got?.map(|chain| chain.head))
    }

    fn add_used(&mut self, heads: &[u32]) -> Result<(), Error> {
        let elems: Vec<_> = heads
            .iter()
            .map(|id| UsedElem::new(*id, id + 1, LE))
            .collect();
        self.ring.add_used(&self.mem, &elems)
    }
}

#[test]
fn sizes_are_powers_of_two() {
    let mut ring = Split::default();
    assert_eq!(ring.num(), 1);
    for num in [
        0,
        3,
        255,
        0x7fff,
        0xffff,
        0x1_0000,
        0x1_0100,
        1 << 31,
        u32::MAX,
    ] {
        assert_eq!(ring.set_num(num), Err(Error::Num { num }));
        assert_eq!(ring.num(), 1);
    }
    for num in (0..16).map(|shift| 1 << shift) {
        assert_eq!(ring.set_num(num), Ok(()));
        assert_eq!(u32::from(ring.num()), num);
    }
}

#[test]
fn positions_have_16_bits() {
    let mut ring = Split::new();
    assert_eq!((ring.set_base(0xffff), ring.base()), (Ok(()), 0xffff));
    let refused = Err(Error::Base { base: 0x1_0000 });
    assert_eq!((ring.set_base(0x1_0000), ring.base()), (refused, 0xffff));
}

#[test]
fn start_shows_the_flags_and_takes_over_the_used_index() {
    let mem = Mem::new(4, Endian::Big);
    mem.set_used16(USED_IDX, 0x0102);
    mem.set_used16(USED_FLAGS, 0x55);
    let mut ring = Split::new();
    ring.set_num(4).unwrap();
    ring.start(&mem, Endian::Big).unwrap();
    assert_eq!((ring.endian(), mem.used16(USED_FLAGS)), (Endian::Big, 0));

    ring.disable_notify(&mem).unwrap();
    mem.set_used16(USED_FLAGS, 0);
    ring.start(&mem, Endian::Big).unwrap();
    assert_eq!(mem.used16(USED_FLAGS), NO_NOTIFY);

    ring.add_used(&mem, &[UsedElem::default()]).unwrap();
    assert_eq!(mem.used16(USED_IDX), 0x0103);
}

#[test]
fn failed_start_keeps_the_byte_order() {
    for good in 0..2 {
        let mem = Mem::new(1, Endian::Big);
        mem.fail_after(good);
        let mut ring = Split::new();
        ring.start(&Mem::new(1, LE), LE).unwrap();
        assert_eq!(ring.start(&mem, Endian::Big), Err(Error::Fault));
        assert_eq!(ring.endian(), LE);
    }
}

#[test]
fn chains_come_in_order() {
    let mut rig = Rig::new(8);
    assert_eq!(rig.pop(), Ok(None));
    rig.mem.publish(&[5, 2, 7]);
    assert_eq!(rig.pop(), Ok(Some(5)));
    assert_eq!(rig.pop(), Ok(Some(2)));
    rig.mem.publish(&[0]);
    assert_eq!(rig.pop(), Ok(Some(7)));
    assert_eq!(rig.pop(), Ok(Some(0)));
    assert_eq!((rig.pop(), rig.ring.base()), (Ok(None), 4));
}

#[test]
fn indices_wrap() {
    let mut rig = Rig::at(4, 0xfffe);
    rig.mem.publish(&[3, 1, 0, 2]);
    for head in [3, 1, 0, 2] {
        assert_eq!(rig.pop(), Ok(Some(head)));
    }
    assert_eq!((rig.pop(), rig.ring.base()), (Ok(None), 2));
    rig.add_used(&[3, 1, 0, 2]).unwrap();
    assert_eq!(rig.mem.used16(USED_IDX), 2);
}

#[test]
fn segments_go_to_the_sink() {
    let mut rig = Rig::new(2);
    rig.mem.set_desc(0, GUEST + 8, 32, WRITE, 0);
    rig.mem.publish(&[0]);
    let mut segs = Segs::new();
    let chain = rig.ring.pop(&rig.mem, &mut Ram::new(), &mut segs).unwrap();
    assert_eq!(
        chain.map(|c| (c.in_segs, c.in_len, c.descs)),
        Some((1, 32, 1))
    );
    assert_eq!(segs.list.len(), 1);
}

#[test]
fn the_barrier_is_between_index_and_entries() {
    let mut rig = Rig::new(4);
    rig.mem.publish(&[1]);
    rig.pop().unwrap();
    let index = Op::Load(Part::Avail, AVAIL_IDX);
    let entry = Op::Load(Part::Avail, layout::avail_slot(0));
    let desc = Op::Read(Part::Desc, layout::desc(1), DESC_SIZE);
    assert_eq!(rig.mem.trace(), [index, Op::Rmb, entry, desc]);
}

#[test]
fn index_may_be_a_ring_ahead_but_no_more() {
    let mut rig = Rig::at(4, 0xffff);
    rig.mem.set_avail16(AVAIL_IDX, 4);
    let jump = Error::AvailJump {
        last_avail_idx: 0xffff,
        avail_idx: 4,
        num: 4,
    };
    assert_eq!(rig.pop(), Err(jump));
    rig.mem.set_avail16(AVAIL_IDX, 0xfffe);
    assert!(matches!(rig.pop(), Err(Error::AvailJump { .. })));
    rig.mem.set_avail16(AVAIL_IDX, 3);
    assert_eq!(rig.pop(), Ok(Some(0)));
}

#[test]
fn bad_head_stops_and_can_be_tried_again() {
    let mut rig = Rig::new(4);
    rig.mem.publish(&[4]);
    assert_eq!(rig.pop(), Err(Error::Head { head: 4, num: 4 }));
    assert_eq!(
        (rig.pop(), rig.ring.base()),
        (Err(Error::Head { head: 4, num: 4 }), 0)
    );
    rig.mem.set_avail16(layout::avail_slot(0), 3);
    assert_eq!((rig.pop(), rig.ring.base()), (Ok(Some(3)), 1));
}

#[test]
fn bad_chain_does_not_move_the_position() {
    let mut rig = Rig::new(4);
    rig.mem.set_desc(1, 0, 1, 0, 0);
    rig.mem.publish(&[0, 1]);
    rig.pop().unwrap();
    assert!(matches!(rig.pop(), Err(Error::Unmapped { .. })));
    assert_eq!(rig.ring.base(), 1);
}

#[test]
fn every_fault_of_pop_is_reported_and_leaves_the_position() {
    for good in 0..3 {
        let mut rig = Rig::new(4);
        rig.mem.publish(&[2, 3]);
        rig.mem.fail_after(good);
        assert_eq!((rig.pop(), rig.ring.base()), (Err(Error::Fault), 0));
        rig.mem.fail_after(usize::MAX);
        assert_eq!((rig.pop(), rig.pop()), (Ok(Some(2)), Ok(Some(3))));
    }
}

#[test]
fn undone_chains_come_again() {
    let mut rig = Rig::new(4);
    rig.mem.publish(&[3, 0, 2]);
    (0..3).for_each(|_| assert!(rig.pop().is_ok()));
    rig.ring.undo(2);
    assert_eq!(rig.ring.base(), 1);
    assert_eq!(
        (rig.pop(), rig.pop(), rig.pop()),
        (Ok(Some(0)), Ok(Some(2)), Ok(None))
    );
}

#[test]
fn used_entries_go_out_in_one_copy() {
    let mut rig = Rig::new(8);
    rig.add_used(&[1, 2, 3]).unwrap();
    let write = Op::Write(layout::used_slot(0), 3 * USED_ELEM_SIZE);
    assert_eq!(rig.mem.trace(), [write, Op::Wmb, Op::Store(USED_IDX)]);
    assert_eq!(rig.mem.used(), [(1, 2), (2, 3), (3, 4)]);
}

#[test]
fn used_entries_wrap_with_a_second_copy() {
    let mut rig = Rig::at(8, 6);
    rig.add_used(&[1, 2, 3]).unwrap();
    let front = Op::Write(layout::used_slot(6), 2 * USED_ELEM_SIZE);
    let wrapped = Op::Write(layout::used_slot(0), USED_ELEM_SIZE);
    assert_eq!(
        rig.mem.trace(),
        [front, wrapped, Op::Wmb, Op::Store(USED_IDX)]
    );
    let got = [6, 7, 0].map(|slot| rig.mem.used_elem(slot));
    assert_eq!(
        (got, rig.mem.used16(USED_IDX)),
        ([(1, 2), (2, 3), (3, 4)], 9)
    );
}

#[test]
fn many_used_entries_take_more_copies() {
    let mut rig = Rig::new(256);
    let heads: Vec<_> = (0..150).collect();
    rig.add_used(&heads).unwrap();
    let sizes = [(0, 64), (64, 64), (128, 22)];
    let writes = sizes.map(|(at, n)| Op::Write(layout::used_slot(at), n * USED_ELEM_SIZE));
    assert_eq!(rig.mem.trace()[..3], writes);
    let want: Vec<_> = heads.iter().map(|id| (*id, id + 1)).collect();
    assert_eq!(rig.mem.used(), want);
}

#[test]
fn too_many_used_entries_stay_in_the_ring() {
    let mut rig = Rig::at(4, 3);
    rig.add_used(&[0, 1, 2, 3, 4, 5]).unwrap();
    let got = [0, 1, 2, 3].map(|slot| rig.mem.used_elem(slot).0);
    assert_eq!((got, rig.mem.used16(USED_IDX)), ([5, 2, 3, 4], 9));
}

#[test]
fn no_used_entries_are_no_access() {
    let mut rig = Rig::new(4);
    rig.add_used(&[]).unwrap();
    assert!(rig.mem.trace().is_empty());
}

#[test]
fn failed_used_entries_are_not_seen_and_can_be_repeated() {
    // The two copies and the index.
    for good in 0..3 {
        let mut rig = Rig::at(4, 3);
        rig.mem.fail_after(good);
        assert_eq!(rig.add_used(&[1, 2]), Err(Error::Fault));
        assert_eq!(rig.mem.used16(USED_IDX), 3);
        rig.mem.fail_after(usize::MAX);
        rig.add_used(&[1, 2]).unwrap();
        let got = [3, 0].map(|slot| rig.mem.used_elem(slot).0);
        assert_eq!((got, rig.mem.used16(USED_IDX)), ([1, 2], 5));
    }
}

#[test]
fn empty_is_only_what_surely_is() {
    let mut rig = Rig::new(4);
    assert!(rig.ring.avail_empty(&rig.mem));
    rig.mem.fail_after(0);
    assert!(!rig.ring.avail_empty(&rig.mem));
    rig.mem.fail_after(usize::MAX);
    rig.mem.set_avail16(AVAIL_IDX, 5);
    assert!(!rig.ring.avail_empty(&rig.mem));
    rig.mem.set_avail16(AVAIL_IDX, 1);
    assert!(!rig.ring.avail_empty(&rig.mem));

    // What was seen once needs no second look.
    rig.mem.trace();
    assert!(!rig.ring.avail_empty(&rig.mem));
    assert!(rig.mem.trace().is_empty());
}
