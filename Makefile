# SPDX-License-Identifier: GPL-2.0
#
# What a person types. The kernel's build reads Kbuild, not this file.
#
#	KDIR=	kernel build folder to build against
#	MODULE=c	makes demo run the kernel's own module
#	MIRROR= SECURITY_MIRROR=	package archives, where apt's own are not to be used
#	REFRESH=1	makes setup take the archive's newest kernel
#	ACCEL=kvm|tcg	overrules the trial that chooses the VM's accelerator
#	FULL=1	makes kselftest take its full counts
#	ARGS=	arguments for kselftest's run.sh, such as "-t ioctl"

KDIR ?= /lib/modules/$(shell uname -r)/build
QEMU := tools/testing/qemu

export MODULE MIRROR SECURITY_MIRROR REFRESH ACCEL FULL
# One zero for the times that the steps of one command print.
export VHOST_START := $(shell date +%s)

# M= would reach the kernel's make as ours; kbuild wants an absolute one.
KBUILD = $(MAKE) -C $(KDIR) M=$(CURDIR) $(if $(KERNELRELEASE),KERNELRELEASE=$(KERNELRELEASE)) $(if $(MO),MO=$(MO))

.PHONY: all modules install modules_install clean help check-kdir setup demo check kselftest host shell

all modules: check-kdir
	$(KBUILD) modules

# modules_install runs depmod itself, unless it can't find System.map.
install modules_install: all
	$(KBUILD) modules_install
	@depmod $(if $(INSTALL_MOD_PATH),-b $(INSTALL_MOD_PATH)) "$$(cat $(KDIR)/include/config/kernel.release)"

clean:
	@if [ -e $(KDIR)/Makefile ]; then $(KBUILD) clean; fi

check-kdir:
	@$(QEMU)/check-kdir.sh $(KDIR)

help:
	@echo 'On this machine (its kernel must have CONFIG_RUST=y and its Rust metadata):'
	@echo '  make                  build the module against KDIR=$(KDIR)'
	@echo '  make install          install it below /lib/modules and run depmod'
	@echo '  make clean            remove what make has built'
	@echo 'In a VM with a stock Debian kernel (as root, on Debian; fetches what is missing):'
	@echo '  make demo             a KVM guest on the module: ping, TCP, offloads, unload'
	@echo '  make demo MODULE=c    the same on the kernel'"'"'s own module, to compare'
	@echo '  make check            all tests and checks; ends with "N passed, N failed"'
	@echo '  make host             the tests of the ring core, no VM'
	@echo '  make kselftest        the tests of the device, in the VM; prints KTAP'
	@echo '  make shell            a shell in the VM'
	@echo '  make setup            only fetch and prepare (REFRESH=1: take a newer kernel)'

setup:
	@$(QEMU)/setup.sh

demo:
	@$(QEMU)/demo.sh

check:
	@$(QEMU)/check.sh

host:
	@$(QEMU)/setup.sh --quiet
	@$(QEMU)/enter.sh tools/testing/host.sh

kselftest:
	@$(QEMU)/kselftest.sh $(ARGS)

shell:
	@$(QEMU)/setup.sh
	@$(QEMU)/vm.sh --shell
