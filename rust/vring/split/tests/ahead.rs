// SPDX-License-Identifier: GPL-2.0

//! How much is fetched with one copy, and that nothing stale is used.

use super::*;

fn heads(slot: u16, count: usize) -> Op {
    Op::Read(Part::Avail, layout::avail_slot(slot), 2 * count)
}

fn descs(index: u16, count: usize) -> Op {
    Op::Read(Part::Desc, layout::desc(index), count * DESC_SIZE)
}

/// Takes all chains; returns the copies out of the ring.
fn copies(rig: &mut Rig) -> Vec<Op> {
    while rig.pop().unwrap().is_some() {}
    let mut trace = rig.mem.trace();
    trace.retain(|op| matches!(op, Op::Read(..)));
    trace
}

#[test]
fn consecutive_chains_take_two_copies() {
    let mut rig = Rig::new(64);
    rig.mem.publish(&[8, 9, 10, 11]);
    assert_eq!(copies(&mut rig), [heads(0, 4), descs(8, 4)]);
}

#[test]
fn runs_are_bounded() {
    let mut rig = Rig::new(64);
    rig.mem.publish(&Vec::from_iter(0..20));
    let want = [heads(0, 16), descs(0, 16), heads(16, 4), descs(16, 4)];
    assert_eq!(copies(&mut rig), want);
}

#[test]
fn heads_stop_at_the_end_of_the_ring() {
    let mut rig = Rig::at(8, 6);
    rig.mem.publish(&[0, 1, 2, 3]);
    let want = [heads(6, 2), descs(0, 2), heads(0, 2), descs(2, 2)];
    assert_eq!(copies(&mut rig), want);
}

#[test]
fn gaps_of_a_cache_line_are_fetched_too() {
    let mut rig = Rig::new(64);
    rig.mem.publish(&[0, 4, 6, 11]);
    assert_eq!(copies(&mut rig), [heads(0, 4), descs(0, 7), descs(11, 1)]);
}

#[test]
fn scattered_and_descending_chains_are_fetched_one_by_one() {
    let mut rig = Rig::new(64);
    rig.mem.publish(&[40, 9, 8, 7]);
    let want = [
        heads(0, 4),
        descs(40, 1),
        descs(9, 1),
        descs(8, 1),
        descs(7, 1),
    ];
    assert_eq!(copies(&mut rig), want);
}

#[test]
fn bad_heads_do_not_lead_out_of_the_table() {
    let mut rig = Rig::new(4);
    rig.mem.publish(&[3, 4]);
    assert_eq!(rig.pop(), Ok(Some(3)));
    assert_eq!(rig.pop(), Err(Error::Head { head: 4, num: 4 }));
    assert_eq!(rig.mem.trace()[2..], [heads(0, 2), descs(3, 1)]);
}

#[test]
fn descriptors_behind_a_head_come_from_the_run() {
    let mut rig = Rig::new(64);
    rig.mem.set_desc(0, GUEST, 1, layout::NEXT, 1);
    rig.mem.set_desc(2, GUEST, 1, layout::NEXT, 3);
    rig.mem.publish(&[0, 2]);
    assert_eq!(copies(&mut rig), [heads(0, 2), descs(0, 3), descs(3, 1)]);
}

#[test]
fn a_descriptor_published_again_is_fetched_again() {
    let mut rig = Rig::new(8);
    rig.mem.publish(&[0, 1]);
    assert_eq!((rig.pop(), rig.pop()), (Ok(Some(0)), Ok(Some(1))));
    rig.add_used(&[1]).unwrap();
    // The driver reuses descriptor 1, which the device still has from before.
    rig.mem.set_desc(1, GUEST, 100, 0, 0);
    rig.mem.publish(&[1]);
    let chain = rig.ring.pop(&rig.mem, &mut Ram::new(), &mut Segs::new());
    assert_eq!(chain.unwrap().map(|c| (c.head, c.out_len)), Some((1, 100)));
}

#[test]
fn chains_put_back_are_not_fetched_again() {
    let mut rig = Rig::new(8);
    rig.mem.publish(&[0, 1, 2]);
    copies(&mut rig);
    rig.ring.undo(2);
    assert_eq!((rig.pop(), rig.pop()), (Ok(Some(1)), Ok(Some(2))));
    assert!(rig.mem.trace().is_empty());
}

#[test]
fn chains_put_back_beyond_the_run_are_fetched_again() {
    let mut rig = Rig::new(64);
    rig.mem.publish(&Vec::from_iter(0..20));
    copies(&mut rig);
    rig.ring.undo(20);
    let want = [heads(0, 16), descs(0, 16), heads(16, 4), descs(16, 4)];
    assert_eq!(copies(&mut rig), want);
}

#[test]
fn what_happens_to_the_ring_makes_it_forget() {
    let forgets: [fn(&mut Rig); 4] = [
        |rig| rig.ring.moved(),
        |rig| rig.ring.start(&rig.mem, LE).unwrap(),
        |rig| rig.ring.set_num(8).unwrap(),
        |rig| rig.ring.set_base(1).unwrap(),
    ];
    for forget in forgets {
        let mut rig = Rig::new(8);
        rig.mem.publish(&[0, 1]);
        assert_eq!(rig.pop(), Ok(Some(0)));
        rig.mem.set_avail16(layout::avail_slot(1), 5);
        forget(&mut rig);
        assert_eq!(rig.pop(), Ok(Some(5)));
    }
}

#[test]
fn old_heads_are_not_taken_for_those_a_round_later() {
    let mut rig = Rig::new(8);
    rig.mem.publish(&[0, 1, 2, 3]);
    copies(&mut rig);
    // One chain at a time needs no run. The index goes round, back to where the run was.
    for index in 4..=u16::MAX {
        rig.mem.publish(&[index % 8]);
        assert_eq!(rig.pop(), Ok(Some(index % 8)));
    }
    rig.mem.publish(&[5]);
    assert_eq!(rig.pop(), Ok(Some(5)));
}

#[test]
fn a_chain_mended_in_place_is_seen() {
    let mut rig = Rig::new(8);
    rig.mem.set_desc(1, GUEST, 1, layout::NEXT, 9);
    rig.mem.publish(&[0, 1, 2]);
    assert_eq!(rig.pop(), Ok(Some(0)));
    assert_eq!(rig.pop(), Err(Error::Next { next: 9, num: 8 }));
    rig.mem.set_desc(1, GUEST, 1, 0, 0);
    assert_eq!((rig.pop(), rig.pop()), (Ok(Some(1)), Ok(Some(2))));
}

#[test]
fn a_head_mended_in_place_is_seen() {
    let mut rig = Rig::new(8);
    rig.mem.publish(&[0, 8, 2]);
    assert_eq!(rig.pop(), Ok(Some(0)));
    assert_eq!(rig.pop(), Err(Error::Head { head: 8, num: 8 }));
    rig.mem.set_avail16(layout::avail_slot(1), 1);
    assert_eq!((rig.pop(), rig.pop()), (Ok(Some(1)), Ok(Some(2))));
}
