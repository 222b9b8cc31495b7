// SPDX-License-Identifier: GPL-2.0

#include <linux/llist.h>

void rust_helper_kext_llist_add(struct llist_node *node, struct llist_head *head)
{
	llist_add(node, head);
}

bool rust_helper_kext_llist_empty(struct llist_head *head)
{
	return llist_empty(head);
}

struct llist_node *rust_helper_kext_llist_del_all(struct llist_head *head)
{
	return llist_del_all(head);
}
