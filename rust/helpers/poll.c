// SPDX-License-Identifier: GPL-2.0

#include <linux/poll.h>
#include <linux/wait.h>

void rust_helper_kext_init_wait_entry(struct wait_queue_entry *entry,
				      wait_queue_func_t func)
{
	init_waitqueue_func_entry(entry, func);
}

void rust_helper_kext_init_poll_table(struct poll_table_struct *table,
				      poll_queue_proc func)
{
	init_poll_funcptr(table, func);
}

unsigned int rust_helper_kext_vfs_poll(struct file *file,
				       struct poll_table_struct *table)
{
	return (__force unsigned int)vfs_poll(file, table);
}
