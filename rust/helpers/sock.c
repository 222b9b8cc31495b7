// SPDX-License-Identifier: GPL-2.0

#include <linux/if_vlan.h>
#include <linux/net.h>
#include <linux/skbuff.h>
#include <net/sock.h>

/* struct sock and struct sk_buff are opaque in the kernel's bindings. */

bool rust_helper_kext_sock_is_raw_packet(const struct socket *sock)
{
	return sock->sk->sk_type == SOCK_RAW && sock->sk->sk_family == AF_PACKET;
}

/*
 * The length of the next frame: tun and tap say it themselves, as their frames
 * wait in rings of their own.
 */
size_t rust_helper_kext_sock_peek_len(struct socket *sock)
{
	struct sk_buff_head *queue = &sock->sk->sk_receive_queue;
	struct sk_buff *skb;
	unsigned long flags;
	int len = 0;

	if (sock->ops->peek_len)
		return max(sock->ops->peek_len(sock), 0);

	spin_lock_irqsave(&queue->lock, flags);
	skb = skb_peek(queue);
	if (skb) {
		len = skb->len;
		if (skb_vlan_tag_present(skb))
			len += VLAN_HLEN;
	}
	spin_unlock_irqrestore(&queue->lock, flags);
	return len;
}

int rust_helper_kext_sock_sendmsg(struct socket *sock, struct msghdr *msg,
				  size_t len)
{
	return sock->ops->sendmsg(sock, msg, len);
}

int rust_helper_kext_sock_recvmsg(struct socket *sock, struct msghdr *msg,
				  size_t len, int flags)
{
	return sock->ops->recvmsg(sock, msg, len, flags);
}
