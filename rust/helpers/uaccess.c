// SPDX-License-Identifier: GPL-2.0

#include <linux/uaccess.h>

/*
 * User addresses come as numbers: on the Rust side there is no pointer that
 * somebody might follow.
 */

bool rust_helper_kext_access_ok(unsigned long addr, unsigned long size)
{
	return access_ok((void __user *)addr, size);
}

int rust_helper_kext_get_user_u16(u16 *val, unsigned long addr)
{
	return get_user(*val, (u16 __user *)addr);
}

int rust_helper_kext_put_user_u16(u16 val, unsigned long addr)
{
	return put_user(val, (u16 __user *)addr);
}

unsigned long rust_helper_kext_copy_from_user(void *to, unsigned long addr,
					      unsigned long len)
{
	return copy_from_user(to, (void __user *)addr, len);
}

unsigned long rust_helper_kext_copy_to_user(unsigned long addr, const void *from,
					    unsigned long len)
{
	return copy_to_user((void __user *)addr, from, len);
}
