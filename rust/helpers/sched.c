// SPDX-License-Identifier: GPL-2.0

#include <linux/sched.h>

void rust_helper_kext_set_current_state(unsigned int state)
{
	set_current_state(state);
}

void rust_helper_kext_set_running(void)
{
	__set_current_state(TASK_RUNNING);
}

void rust_helper_kext_cond_resched(void)
{
	cond_resched();
}
