// SPDX-License-Identifier: GPL-2.0
/*
 * Functions for what Rust cannot call: inline functions and macros. One file
 * for each C header that needs any, sorted alphabetically. Rust sees
 * rust_helper_foo() as foo().
 */

#include "llist.c"
#include "poll.c"
#include "sched.c"
#include "sock.c"
#include "uaccess.c"
