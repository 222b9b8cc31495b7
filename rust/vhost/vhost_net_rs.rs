// SPDX-License-Identifier: GPL-2.0

//! In-kernel backend of a virtio network device: the module and its parameters.

#![forbid(unsafe_code)]

mod backend;
mod dev;
mod error;
mod features;
mod guest_mem;
mod ioctl;
mod net;
mod vq;

use dev::Net;
use kernel::prelude::*;
use kext::{
    misc::{
        self,
        Minor, //
    },
    param::{
        AnyNodeName,
        NodeName,
        Range, //
    }, //
};

module! {
    type: VhostNetRs,
    name: "vhost_net_rs",
    authors: ["vhost-net-rs developers"],
    description: "Host kernel accelerator for virtio net, in Rust",
    license: "GPL v2",
    alias: ["char-major-10-238", "devname:vhost-net"],
}

kext::module_param! {
    /// The most regions that a memory table may have.
    static MAX_MEM_REGIONS: Range<u16> = {
        name: c"max_mem_regions",
        kind: Range::new(0, u16::MAX),
        default: 64,
        description: "Most memory regions in a memory table, 0 to 65535 (default: 64)",
    };
}

/// The node that programs look for, and the only one with a reserved minor number.
const DEFAULT_NAME: &CStr = c"vhost-net";

kext::module_param! {
    /// The name of the node in `/dev`.
    static NAME: AnyNodeName = {
        name: c"name",
        kind: AnyNodeName,
        default: NodeName::of_constant(DEFAULT_NAME),
        description: "Name of the node in /dev, 1 to 31 of A-Z a-z 0-9 _ -; \
            vhost-net has minor 238, others get a free one (default: vhost-net)",
    };
}

/// The loaded module.
struct VhostNetRs {
    _device: Pin<KBox<misc::Registration<Net>>>,
}

impl kernel::Module for VhostNetRs {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let name = NAME.get();
        register(name.as_cstr()).map(|device| Self { _device: device })
    }
}

/// Creates the device node, or says why it cannot be.
fn register(name: &CStr) -> Result<Pin<KBox<misc::Registration<Net>>>> {
    let minor = if name == DEFAULT_NAME {
        Minor::Fixed(misc::VHOST_NET_MINOR)
    } else {
        Minor::Dynamic
    };
    misc::Registration::new(name, minor)
        .and_then(|device| KBox::pin_init(device, GFP_KERNEL))
        .inspect_err(|&e| explain(name, minor, e))
}

/// Tells in the kernel log why the device could not be registered, and what helps.
fn explain(name: &CStr, minor: Minor, e: Error) {
    match minor {
        Minor::Fixed(minor) if e == EBUSY => pr_err!(
            "minor {minor} of /dev/{name} is taken, as it is while the vhost_net module is loaded: \
             unload that (modprobe -r vhost_net) or load this one with another name=\n"
        ),
        _ if e == EEXIST => {
            pr_err!("a device named {name} exists already: load this module with another name=\n")
        }
        _ => pr_err!("cannot register /dev/{name}: error {}\n", e.to_errno()),
    }
}
