// SPDX-License-Identifier: GPL-2.0
/*
 * What can only be seen while the worker stands still: a SET_OWNER that fails, and
 * chains that come while it is at work. A page that does not come holds it.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "flow.h"
#include "ktap.h"
#include "util.h"

/* A page of guest memory that nobody gets before page_give(). */
struct page {
	int uffd;
	uint64_t gpa;
};

static struct page page_hold(struct guest *g)
{
	struct page p = { .gpa = guest_alloc(g, 4096, 4096) };
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = {
		.range = { (uintptr_t)gva(g, p.gpa), 4096 },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};

	p.uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	CHECK(p.uffd >= 0 && !ioctl(p.uffd, UFFDIO_API, &api) &&
	      !ioctl(p.uffd, UFFDIO_REGISTER, &reg), "userfaultfd: %s", strerror(errno));
	return p;
}

static void page_give(struct guest *g, struct page *p)
{
	static char zeros[4096];
	struct uffdio_copy copy = {
		.dst = (uintptr_t)gva(g, p->gpa), .src = (uintptr_t)zeros, .len = 4096,
	};

	CHECK(!ioctl(p->uffd, UFFDIO_COPY, &copy), "%s", strerror(errno));
	close(p->uffd);
}

/* Waits until a thread is in an uninterruptible sleep. */
static void wait_blocked(pid_t tid)
{
	char path[64], buf[512], *p;

	snprintf(path, sizeof(path), "/proc/%d/stat", tid);
	for (int64_t end = now_ms() + WAIT_MS; ; sleep_ms(1)) {
		CHECK(read_file(path, buf, sizeof(buf)), "%s: %s", path, strerror(errno));
		p = strrchr(buf, ')');
		if (p && p[2] == 'D')
			return;
		CHECK(now_ms() < end, "thread %d does not block: %s", tid, buf);
	}
}

struct resetter {
	int dev;
	volatile pid_t tid;
	int ret;
};

static void *reset_main(void *arg)
{
	struct resetter *x = arg;

	x->tid = gettid();
	x->ret = vhost_ioctl(x->dev, VHOST_RESET_OWNER, NULL);
	return NULL;
}

static void own(void *arg)
{
	vhost_ioctl(*(int *)arg, VHOST_SET_OWNER, NULL);
	pause();
}

/*
 * The worker hangs in a page that does not come, RESET_OWNER waits for the worker
 * and a child's SET_OWNER for the reset. The child is killed there: a task with a
 * deadly signal cannot have a thread created, so its SET_OWNER fails.
 */
static pid_t killed_owner(struct rig *r)
{
	struct page page = page_hold(&r->g);
	struct resetter x = { .dev = r->g.dev };
	struct ring *q = &r->g.q[TXQ];
	pthread_t t;
	pid_t pid;

	ring_desc(q, 0, page.gpa, r->g.hlen + FRAME_MIN, 0, 0);
	ring_post(q, 0);
	ring_kick_always(q);
	CHECK(wait_readable(page.uffd, WAIT_MS), "nobody wants the page");
	CHECK(!pthread_create(&t, NULL, reset_main, &x), "no thread");
	while (!x.tid)
		sleep_ms(1);
	wait_blocked(x.tid);
	pid = spawn(own, &r->g.dev);
	wait_blocked(pid);
	kill(pid, SIGKILL);
	page_give(&r->g, &page);
	pthread_join(t, NULL);
	OK(x.ret);
	reap_ok(pid, WAIT_MS);
	return pid;
}

/* True if the child's SET_OWNER failed; it may have had its thread before it looked. */
static bool fail_and_retry(void)
{
	struct rig r;
	pid_t pid;
	int ret;

	rig_start(&r, &(struct guest_opt){ .features = F_MODERN });
	pid = killed_owner(&r);
	ret = vhost_ioctl(r.g.dev, VHOST_SET_OWNER, NULL);
	if (ret) {
		ERR(ret, -EBUSY);
		rig_stop(&r);
		return false;
	}
	wait_no_worker(pid);
	OK(vhost_ioctl(r.g.dev, VHOST_RESET_OWNER, NULL));
	for (unsigned int q = 0; q < NQ; q++)
		ring_reset(&r.g, q, 0);
	guest_setup(&r.g);
	rig_alive(&r);
	rig_stop(&r);
	return true;
}

TEST(lifecycle, set_owner_fails_and_retries, 60)
{
	unsigned int failed = 0;

	for (int i = 0; i < 5; i++)
		failed += fail_and_retry();
	CHECK(failed, "no SET_OWNER of a killed task failed");
	ktap_note("%u of 5 failed, and could be repeated", failed);
}

/*
 * A good chain that holds the worker, a bad one behind it, and a third one that comes
 * when the worker has looked at the index already. The kick that it asks for then has
 * to be that of the fourth, not of the third, which the driver has done with.
 */
TEST(lifecycle, kick_wanted_after_late_chain, 30)
{
	struct rig r;
	struct ring *q = &r.g.q[TXQ];
	struct page page;
	uint64_t area;

	if (!expect("kick_after_bad_chain"))
		SKIP("no kick is asked for after a bad chain");
	rig_start(&r, &(struct guest_opt){ .features = F_MODERN | F_EVENT });
	page = page_hold(&r.g);
	area = guest_alloc(&r.g, 4096, 4096);
	ring_desc(q, 0, page.gpa, r.g.hlen + FRAME_MIN, 0, 0);
	ring_desc(q, 1, area, r.g.hlen + FRAME_MIN, 0, 0);
	q->avail->ring[q->next_avail % q->num] = 0;
	q->next_avail++;
	ring_post(q, 60000);
	ring_kick_always(q);
	CHECK(wait_readable(page.uffd, WAIT_MS), "nobody wants the page");
	ring_post(q, 1);
	CHECK(!ring_kick_wanted(q), "the worker is at work and wants a kick");
	q->kicked = q->next_avail;
	page_give(&r.g, &page);
	CHECK(ring_error(q, WAIT_MS), "no error");
	ring_post(q, 1);
	CHECK(ring_kick_wanted(q), "stuck, and no kick wanted");
	rig_alive(&r);
	rig_stop(&r);
}
