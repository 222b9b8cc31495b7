// SPDX-License-Identifier: GPL-2.0

//! Who wants to hear of what.

use std::vec;

use super::*;
use crate::layout::AVAIL_FLAGS;

fn set_used_event(rig: &Rig, event: u16) {
    rig.mem
        .set_avail16(layout::used_event(rig.ring.num()), event);
}

#[test]
fn flag_decides_without_event_index() {
    let mut rig = Rig::new(4);
    assert_eq!(rig.ring.needs_signal(&rig.mem), Ok(true));
    assert_eq!(
        rig.mem.trace(),
        [Op::Mb, Op::Load(Part::Avail, AVAIL_FLAGS)]
    );
    rig.mem.set_avail16(AVAIL_FLAGS, NO_INTERRUPT);
    assert_eq!(rig.ring.needs_signal(&rig.mem), Ok(false));
    rig.mem.set_avail16(AVAIL_FLAGS, !NO_INTERRUPT);
    assert_eq!(rig.ring.needs_signal(&rig.mem), Ok(true));
}

#[test]
fn empty_ring_overrides_the_flag_where_negotiated() {
    let mut rig = Rig::new(4);
    rig.mem.set_avail16(AVAIL_FLAGS, NO_INTERRUPT);
    rig.ring.set_features(Features {
        notify_on_empty: true,
        ..Features::default()
    });
    assert_eq!(rig.ring.needs_signal(&rig.mem), Ok(true));
    rig.mem.publish(&[0, 1]);
    rig.pop().unwrap();
    assert_eq!(rig.ring.needs_signal(&rig.mem), Ok(false));
    rig.pop().unwrap();
    assert_eq!(rig.ring.needs_signal(&rig.mem), Ok(true));
}

#[test]
fn event_decides_with_event_index() {
    let mut rig = Rig::at(4, 0xffff).event_idx();
    set_used_event(&rig, 0x4000);
    // The first time there is no earlier answer to compare with.
    assert_eq!(rig.ring.needs_signal(&rig.mem), Ok(true));
    assert_eq!(rig.mem.trace(), [Op::Mb]);

    rig.add_used(&[0]).unwrap();
    assert_eq!(rig.ring.needs_signal(&rig.mem), Ok(false));
    set_used_event(&rig, 1);
    rig.add_used(&[1]).unwrap();
    assert_eq!(rig.ring.needs_signal(&rig.mem), Ok(false));
    rig.add_used(&[2]).unwrap();
    assert_eq!(rig.ring.needs_signal(&rig.mem), Ok(true));
    // Nothing new since.
    assert_eq!(rig.ring.needs_signal(&rig.mem), Ok(false));
}

#[test]
fn start_forgets_the_last_answer() {
    let mut rig = Rig::new(4).event_idx();
    set_used_event(&rig, 0x4000);
    assert_eq!(rig.ring.needs_signal(&rig.mem), Ok(true));
    assert_eq!(rig.ring.needs_signal(&rig.mem), Ok(false));
    rig.ring.start(&rig.mem, LE).unwrap();
    assert_eq!(rig.ring.needs_signal(&rig.mem), Ok(true));
}

#[test]
fn a_whole_turn_of_the_index_forgets_the_last_answer() {
    let mut rig = Rig::new(0x4000).event_idx();
    let batch = vec![0; 0x4000];
    assert_eq!(rig.ring.needs_signal(&rig.mem), Ok(true));
    (0..3).for_each(|_| rig.add_used(&batch).unwrap());
    rig.add_used(&batch[1..]).unwrap();
    // 65535 entries: just not round.
    set_used_event(&rig, 0xffff);
    assert_eq!(rig.ring.clone().needs_signal(&rig.mem), Ok(false));
    rig.add_used(&[0]).unwrap();
    assert_eq!(rig.ring.needs_signal(&rig.mem), Ok(true));
}

#[test]
fn a_wish_that_cannot_be_read_is_an_error() {
    let mut rig = Rig::new(4);
    rig.mem.fail_after(0);
    assert_eq!(rig.ring.needs_signal(&rig.mem), Err(Error::Fault));

    let mut rig = Rig::new(4).event_idx();
    rig.ring.needs_signal(&rig.mem).unwrap();
    rig.mem.fail_after(0);
    assert_eq!(rig.ring.needs_signal(&rig.mem), Err(Error::Fault));
}

#[test]
fn crossed_is_membership() {
    for old in [0_u16, 1, 0x7fff, 0xfff8, 0xffff] {
        for count in 0..20 {
            let entries: Vec<_> = (0..count).map(|i| old.wrapping_add(i)).collect();
            let new = old.wrapping_add(count);
            for event in (0..30).map(|i| old.wrapping_sub(5).wrapping_add(i)) {
                assert_eq!(crossed(event, old, new), entries.contains(&event));
            }
        }
    }
}

#[test]
fn kicks_are_a_flag_without_event_index() {
    let mut rig = Rig::new(4);
    rig.ring.disable_notify(&rig.mem).unwrap();
    rig.ring.disable_notify(&rig.mem).unwrap();
    assert_eq!(rig.mem.used16(USED_FLAGS), NO_NOTIFY);
    assert_eq!(rig.mem.trace(), [Op::Store(USED_FLAGS)]);

    assert_eq!(rig.ring.enable_notify(&rig.mem), Ok(false));
    assert_eq!(rig.mem.used16(USED_FLAGS), 0);
    let look = Op::Load(Part::Avail, AVAIL_IDX);
    assert_eq!(rig.mem.trace(), [Op::Store(USED_FLAGS), Op::Mb, look]);
    // Enabled already.
    assert_eq!(rig.ring.enable_notify(&rig.mem), Ok(false));
    assert!(rig.mem.trace().is_empty());
}

#[test]
fn kicks_are_an_index_with_event_index() {
    let mut rig = Rig::at(4, 7).event_idx();
    rig.ring.disable_notify(&rig.mem).unwrap();
    assert!(rig.mem.trace().is_empty());
    assert_eq!(rig.ring.enable_notify(&rig.mem), Ok(false));
    assert_eq!(rig.mem.used16(layout::avail_event(4)), 7);
    assert_eq!(rig.mem.used16(USED_FLAGS), 0);
}

#[test]
fn chains_of_the_meantime_are_noticed() {
    for mut rig in [Rig::new(4), Rig::new(4).event_idx()] {
        rig.ring.disable_notify(&rig.mem).unwrap();
        assert_eq!(rig.pop(), Ok(None));
        rig.mem.publish(&[1]);
        assert_eq!(rig.ring.enable_notify(&rig.mem), Ok(true));
        assert_eq!(rig.pop(), Ok(Some(1)));
    }
}

#[test]
fn chains_put_back_are_no_news() {
    let mut rig = Rig::new(4).event_idx();
    rig.ring.disable_notify(&rig.mem).unwrap();
    rig.mem.publish(&[1, 2]);
    rig.pop().unwrap();
    rig.ring.undo(1);
    assert_eq!(rig.ring.enable_notify(&rig.mem), Ok(false));
    assert_eq!(rig.mem.used16(layout::avail_event(4)), 2);
}

#[test]
fn errors_of_enabling_are_reported() {
    for good in 0..2 {
        let mut rig = Rig::new(4);
        rig.ring.disable_notify(&rig.mem).unwrap();
        rig.mem.fail_after(good);
        assert_eq!(rig.ring.enable_notify(&rig.mem), Err(Error::Fault));
    }
    let mut rig = Rig::new(4);
    rig.ring.disable_notify(&rig.mem).unwrap();
    rig.mem.set_avail16(AVAIL_IDX, 5);
    let got = rig.ring.enable_notify(&rig.mem);
    assert!(matches!(got, Err(Error::AvailJump { .. })));
}

#[test]
fn error_of_disabling_is_reported() {
    let mut rig = Rig::new(4);
    rig.mem.fail_after(0);
    assert_eq!(rig.ring.disable_notify(&rig.mem), Err(Error::Fault));
}
