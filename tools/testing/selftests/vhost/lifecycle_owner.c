// SPDX-License-Identifier: GPL-2.0
/* Owners that reset, die, exec, or hand their fd to others. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "flow.h"
#include "ktap.h"
#include "netdev.h"
#include "util.h"

#define MODERN	(&(struct guest_opt){ .features = F_MODERN | F_MRG | F_EVENT })

TEST(lifecycle, reset_owner_under_load, 60)
{
	struct rig r;
	unsigned long rounds = ROUNDS / 10 + 2;

	rig_start(&r, MODERN);
	for (unsigned long i = 0; i < rounds; i++) {
		struct flood *f = flood_start(&r.g, r.tap.name);

		for (int64_t end = now_ms() + WAIT_MS; flood_count(f) < 50; sleep_ms(1))
			CHECK(now_ms() < end, "life %lu does not start", i);
		OK(vhost_ioctl(r.g.dev, VHOST_RESET_OWNER, NULL));
		flood_stop(f);
		for (unsigned int q = 0; q < NQ; q++)
			ring_reset(&r.g, q, 0);
		guest_setup(&r.g);
		guest_attach_both(&r.g, r.tap.fd);
	}
	rig_alive(&r);
	rig_stop(&r);
}

/* After a reset nothing of the former life is touched any more. */
TEST(lifecycle, reset_owner_second_life, 30)
{
	struct rig r;
	struct vring_used_elem e;
	static char buf[FRAME_MAX];

	rig_start(&r, MODERN);
	rig_pass(&r, 100, 100, FRAME_MIN);
	OK(vhost_ioctl(r.g.dev, VHOST_RESET_OWNER, NULL));
	frame_make(buf, FRAME_MIN, 0, false);
	CHECK(guest_send(&r.g, buf, FRAME_MIN), "no slot");
	ring_kick_always(&r.g.q[TXQ]);
	CHECK(!ring_wait(&r.g.q[TXQ], &e, 50), "a kick after the reset was served");
	for (unsigned int q = 0; q < NQ; q++)
		ring_reset(&r.g, q, 0);
	guest_setup(&r.g);
	guest_attach_both(&r.g, r.tap.fd);
	rig_pass(&r, 100, 0, FRAME_MIN);
	rig_alive(&r);
	rig_stop(&r);
}

static void second_owner(void *arg)
{
	struct rig r = *(struct rig *)arg;

	for (unsigned int q = 0; q < NQ; q++)
		ring_reset(&r.g, q, 0);
	guest_setup(&r.g);
	guest_attach_both(&r.g, r.tap.fd);
	rig_alive(&r);
	OK(vhost_ioctl(r.g.dev, VHOST_RESET_OWNER, NULL));
}

/* Reset here, a second life in a child, a third one here. */
TEST(lifecycle, reset_owner_then_child, 30)
{
	struct rig r;

	rig_start(&r, MODERN);
	rig_pass(&r, 50, 50, FRAME_MIN);
	OK(vhost_ioctl(r.g.dev, VHOST_RESET_OWNER, NULL));
	EQ(in_child(second_owner, &r), 0);
	second_owner(&r);
	rig_stop(&r);
}

/* What the victim tells its parent. */
struct shared {
	volatile unsigned long passed;
	volatile bool ready;
};

struct victim {
	struct shared *shared;
	int sock;	/* where it sends its vhost fd, or -1 */
	bool exec;
};

static void send_fd(int sock, int fd)
{
	char c = 0, ctl[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec v = { &c, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = ctl,
			    .msg_controllen = sizeof(ctl) };
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);

	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(h), &fd, sizeof(fd));
	CHECK(sendmsg(sock, &m, 0) == 1, "%s", strerror(errno));
}

static int recv_fd(int sock)
{
	char c, ctl[CMSG_SPACE(sizeof(int))];
	struct iovec v = { &c, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = ctl,
			    .msg_controllen = sizeof(ctl) };
	int fd;

	CHECK(recvmsg(sock, &m, 0) == 1 && CMSG_FIRSTHDR(&m), "%s", strerror(errno));
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	return fd;
}

static void victim(void *arg)
{
	struct victim *v = arg;
	struct rig r;
	struct flood *f;

	rig_start(&r, MODERN);
	guest_busyloop(&r.g, 50);
	if (v->sock >= 0)
		send_fd(v->sock, r.g.dev);
	f = flood_start(&r.g, r.tap.name);
	for (;;) {
		v->shared->passed = flood_count(f);
		if (v->shared->passed > 200)
			v->shared->ready = true;
		if (v->shared->ready && v->exec)
			execl("/bin/sleep", "sleep", "30", NULL);
		sleep_ms(1);
	}
}

static struct shared *shared_page(void)
{
	struct shared *s = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(s != MAP_FAILED, "%s", strerror(errno));
	return s;
}

static pid_t start_victim(struct victim *v)
{
	pid_t pid;

	v->shared = shared_page();
	pid = spawn(victim, v);
	for (int64_t end = now_ms() + WAIT_MS; !v->shared->ready; sleep_ms(1))
		CHECK(now_ms() < end, "the victim does not get frames through");
	return pid;
}

static void no_worker(pid_t owner, int ms)
{
	char name[16];
	int64_t end = now_ms() + ms;

	snprintf(name, sizeof(name), "vhost-%d", owner);
	while (find_thread(name)) {
		CHECK(now_ms() < end, "worker %s is still there", name);
		sleep_ms(5);
	}
}

TEST(lifecycle, owner_killed_under_load, 60)
{
	for (int i = 0; i < 5; i++) {
		struct victim v = { .sock = -1 };
		pid_t pid = start_victim(&v);

		kill(pid, SIGKILL);
		reap_ok(pid, WAIT_MS);
		no_worker(pid, WAIT_MS);
	}
}

/* exec() closes the node (O_CLOEXEC) and drops the address space. */
TEST(lifecycle, owner_execs_under_load, 30)
{
	struct victim v = { .sock = -1, .exec = true };
	pid_t pid = start_victim(&v);

	no_worker(pid, WAIT_MS);
	kill(pid, SIGKILL);
	reap_ok(pid, WAIT_MS);
}

/* Another process holds the fd while the owner dies under load. */
TEST(lifecycle, owner_killed_fd_held, 30)
{
	struct vhost_vring_state s = { .num = 256 };
	struct victim v = { 0 };
	int pair[2], dev;
	pid_t pid;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "%s", strerror(errno));
	v.sock = pair[1];
	pid = start_victim(&v);
	dev = recv_fd(pair[0]);
	ERR(vhost_ioctl(dev, VHOST_SET_VRING_NUM, &s), -EPERM);
	kill(pid, SIGKILL);
	reap_ok(pid, WAIT_MS);
	sleep_ms(50);
	/* Still owned, by an address space that has no process any more. */
	ERR(vhost_ioctl(dev, VHOST_SET_VRING_NUM, &s), -EPERM);
	ERR(vhost_ioctl(dev, VHOST_SET_OWNER, NULL), -EBUSY);
	ERR(vhost_ioctl(dev, VHOST_RESET_OWNER, NULL), -EPERM);
	close(dev);
	no_worker(pid, WAIT_MS);
}

struct holder {
	int sock;
	int dev;
};

static void hold_fd(void *arg)
{
	struct holder *h = arg;
	int dev = recv_fd(h->sock);
	struct vhost_vring_state s = { .num = 256 };
	uint64_t f;

	ERR(vhost_ioctl(dev, VHOST_SET_VRING_NUM, &s), -EPERM);
	ERR(vhost_ioctl(dev, VHOST_SET_OWNER, NULL), -EBUSY);
	OK(vhost_ioctl(dev, VHOST_GET_FEATURES, &f));
}

/* Passing the fd on gives no rights, and the receiver's close takes none. */
TEST(lifecycle, fd_passed_by_scm_rights, 30)
{
	struct rig r;
	struct holder h;
	int pair[2];

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "%s", strerror(errno));
	rig_start(&r, MODERN);
	h.sock = pair[1];
	send_fd(pair[0], r.g.dev);
	EQ(in_child(hold_fd, &h), 0);
	rig_pass(&r, 100, 100, FRAME_MIN);
	rig_stop(&r);
}

static void wait_here(void *arg)
{
	(void)arg;
	pause();
}

/* A forked child keeps a copy of the fd; its death is none of the device's affair. */
TEST(lifecycle, fork_keeps_device, 30)
{
	struct rig r;
	pid_t pid;

	rig_start(&r, MODERN);
	pid = spawn(wait_here, NULL);
	rig_pass(&r, 100, 100, FRAME_MIN);
	kill(pid, SIGKILL);
	reap_ok(pid, WAIT_MS);
	rig_alive(&r);
	rig_stop(&r);
}

/* A kick eventfd that outlives the device may be written, and nothing happens. */
TEST(lifecycle, kick_after_close, 30)
{
	struct rig r;
	uint64_t one = 1;
	int kick;

	rig_start(&r, MODERN);
	kick = dup(r.g.q[TXQ].kick);
	rig_pass(&r, 20, 20, FRAME_MIN);
	rig_stop(&r);
	for (int i = 0; i < 100; i++)
		CHECK(write(kick, &one, sizeof(one)) == sizeof(one), "%s", strerror(errno));
}
