// SPDX-License-Identifier: GPL-2.0
/*
 * One frame out, one frame in: the whole of vhost-net in one small program.
 *
 * A virtual machine's network card has two halves. The driver, in the guest, owns two virtqueues
 * in guest memory. The device, here /dev/vhost-net, moves frames between those virtqueues and a
 * tap. This process plays the guest: it is driver and virtual machine monitor at once, so that
 * nothing is hidden. Read main() first, then each step in order.
 *
 * Section numbers are those of VIRTIO 1.3; ioctls are those of <linux/vhost.h>.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <linux/vhost.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <poll.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define QSIZE		4	/* Entries of each queue; 2.7 wants a power of two. */
#define BUF_SIZE	2048	/* 5.1.6.3.1: at least 1526, a header and a full frame. */
#define GUEST_BASE	0x10000	/* Where our memory starts in the guest's eyes. */
#define TIMEOUT_MS	10000	/* No single wait is longer. */
#define MAX_STRANGERS	64	/* Frames of others that we put up with. */

enum { RX, TX };		/* 5.1.2: receiveq1 is queue 0, transmitq1 is queue 1. */

/*
 * A split virtqueue, 2.7: three tables, all in guest memory. The driver writes the first two, the
 * device only the third. All fields are little-endian, whatever the machine. The atomic fields
 * are those that one side writes while the other may be reading.
 */
struct virtqueue {
	alignas(16) struct vring_desc desc[QSIZE];	/* 2.7.5: buffers: address, length, flags */
	alignas(2) struct {				/* 2.7.6: driver: "these are for you" */
		_Atomic uint16_t flags, idx;
		uint16_t ring[QSIZE], used_event;
	} avail;
	alignas(4) struct {				/* 2.7.8: device: "I am done with these" */
		_Atomic uint16_t flags, idx;
		struct vring_used_elem ring[QSIZE];
		uint16_t avail_event;
	} used;
};

/* 5.1.6: every frame has this header in front: 12 bytes once VIRTIO_F_VERSION_1 is agreed. */
struct packet {
	struct virtio_net_hdr_mrg_rxbuf hdr;
	unsigned char frame[BUF_SIZE - sizeof(struct virtio_net_hdr_mrg_rxbuf)];
};

/* All that the device can see of us. A real guest has gigabytes, this one a few pages. */
static struct guest_memory {
	struct virtqueue vq[2];
	struct packet rx_buf[QSIZE], tx_buf;
} *mem;

/* What the driver remembers of a queue for itself. The shared copies are for the device. */
static struct { int kick, call; uint16_t avail_idx, used_idx; } priv[2];

/* Two whole Ethernet frames: 14 bytes of Ethernet header, 28 of ARP. */
static const unsigned char question[] = {
	0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 2, 0x08, 0x06, /* to all, from guest, ARP */
	0, 1, 0x08, 0, 6, 4, 0, 1,				/* Ethernet, IPv4; a request */
	2, 0, 0, 0, 0, 2, 192, 0, 2, 2,				/* asks 192.0.2.2 */
	0, 0, 0, 0, 0, 0, 192, 0, 2, 1,				/* about 192.0.2.1 */
};
static const unsigned char answer[] = {
	2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x06,		/* to guest, from host, ARP */
	0, 1, 0x08, 0, 6, 4, 0, 2,				/* Ethernet, IPv4; a reply */
	2, 0, 0, 0, 0, 1, 192, 0, 2, 1,				/* says 192.0.2.1 */
	2, 0, 0, 0, 0, 2, 192, 0, 2, 2,				/* to 192.0.2.2 */
};
#define FRAME_LEN sizeof(question)

static const char *const queue_name[] = { "RX", "TX" };
static const char *node = "/dev/vhost-net";
static char tap_name[IFNAMSIZ] = "oneframe%d";	/* The kernel fills in the number. */
static int vhost, tap, wire, ring_error;

/* Says why, then what to do about it. Exit closes our files; the kernel clears up all the rest. */
__attribute__((noreturn, format(printf, 2, 3)))
static void die(const char *remedy, const char *fmt, ...)
{
	int err = errno;
	va_list ap;

	fflush(stdout);
	fputs("one-frame: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "%s%s. %s.\n", err ? ": " : "", err ? strerror(err) : "", remedy);
	exit(EXIT_FAILURE);
}

__attribute__((format(printf, 2, 3)))
static void say(const char *what, const char *fmt, ...)
{
	va_list ap;

	printf("   %-22s ", what);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

static const char *remedy_for(int err, const char *module)
{
	static char text[128];

	switch (err) {
	case EACCES:
	case EPERM:
		return "Run this as root";
	case EISDIR:
	case ENOTTY:
		return "Name a vhost-net node: one-frame [NODE]";
	case ENOENT:
	case ENODEV:
	case ENXIO:
		snprintf(text, sizeof(text), "Load the module (modprobe %s) or check the name", module);
		return text;
	}
	return "The kernel log (dmesg) may say more";
}

/* One vhost ioctl, and a line about it. All of them say -1 for failure, and only then. */
#define VHOST(request, arg, ...) do {						\
	if (ioctl(vhost, request, arg) < 0)					\
		die(remedy_for(errno, "vhost_net"), "%s on %s", #request, node);	\
	say(#request, __VA_ARGS__);						\
} while (0)

/* Waits for a file to become readable, or for the device to complain about our rings. */
static void wait_for(int fd, const char *event)
{
	struct pollfd pfd[] = { { .fd = fd, .events = POLLIN }, { .fd = ring_error, .events = POLLIN } };
	int n;

	do {
		n = poll(pfd, 2, TIMEOUT_MS);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		die("This should not happen", "poll");
	errno = 0;
	if (pfd[1].revents)
		die("Something is wrong in our rings: compare offer() with 2.7.13", "%s gave up", node);
	if (!n)
		die("Look at the vhost worker thread: ps ax",
		    "waited %d s in vain for %s", TIMEOUT_MS / 1000, event);
}

static int new_eventfd(void)
{
	int fd = eventfd(0, EFD_CLOEXEC);

	if (fd < 0)
		die("Close some files", "eventfd");
	return fd;
}

static void open_device(void)
{
	uint64_t features;

	printf("\n1. The device\n");
	vhost = open(node, O_RDWR | O_CLOEXEC);
	if (vhost < 0)
		die(remedy_for(errno, "vhost_net"), "open %s", node);
	say("open", "%s: each open is a network card of its own", node);

	/* Must be first: the device's worker thread reads our memory, so it must know whose. */
	VHOST(VHOST_SET_OWNER, NULL, "its worker thread now works in our address space");

	/*
	 * 2.2: the device offers, the driver picks. VERSION_1 (section 6) is the one we cannot do
	 * without: it makes the rings little-endian and the header 12 bytes. With no other feature
	 * taken, one buffer holds one frame and notifications are governed by plain flags.
	 */
	VHOST(VHOST_GET_FEATURES, &features, "it offers %#llx", (unsigned long long)features);
	errno = 0;
	if (!(features & 1ULL << VIRTIO_F_VERSION_1))
		die("This program needs it", "%s does not offer VIRTIO_F_VERSION_1", node);
	features = 1ULL << VIRTIO_F_VERSION_1;
	VHOST(VHOST_SET_FEATURES, &features, "of that we take VIRTIO_F_VERSION_1, no more");
}

/* The address of something of ours as the guest would know it. */
static uint64_t guest_addr(const void *p)
{
	return GUEST_BASE + (uint64_t)((const char *)p - (const char *)mem);
}

static void share_memory(void)
{
	struct vhost_memory *table = calloc(1, sizeof(*table) + sizeof(table->regions[0]));

	printf("\n2. The guest's memory\n");
	mem = mmap(NULL, sizeof(*mem), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!table || mem == MAP_FAILED)
		die("Free some memory", "%zu bytes of memory", sizeof(*mem));

	/*
	 * Descriptors hold guest addresses, the device needs ours: this table translates. The two
	 * differ on purpose here, as they do in a real virtual machine.
	 */
	table->nregions = 1;
	table->regions[0].guest_phys_addr = GUEST_BASE;
	table->regions[0].memory_size = sizeof(*mem);
	table->regions[0].userspace_addr = (uintptr_t)mem;
	VHOST(VHOST_SET_MEM_TABLE, table, "guest address %#x is our %p, %zu bytes from there",
	      GUEST_BASE, (void *)mem, sizeof(*mem));
	free(table);
}

static void make_tap(void)
{
	struct ifreq ifr = { .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR };
	int hdr_len = sizeof(struct virtio_net_hdr_mrg_rxbuf);

	printf("\n3. The tap, the cable's end in the host\n");
	tap = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
	if (tap < 0)
		die(remedy_for(errno, "tun"), "open /dev/net/tun");
	memcpy(ifr.ifr_name, tap_name, IFNAMSIZ);
	if (ioctl(tap, TUNSETIFF, &ifr) < 0)
		die(remedy_for(errno, "tun"), "TUNSETIFF: cannot make a tap");
	memcpy(tap_name, ifr.ifr_name, IFNAMSIZ);
	say("TUNSETIFF", "made %s; it lives as long as its file is open", tap_name);

	/* The device passes the header on as it is, so the tap must expect the same length. */
	if (ioctl(tap, TUNSETVNETHDRSZ, &hdr_len) < 0)
		die("The tun driver is too old", "TUNSETVNETHDRSZ");
	say("TUNSETVNETHDRSZ", "%d bytes of virtio header before each frame", hdr_len);
}

/* A packet socket on the tap's network device is the host's side of the conversation. */
static void open_wire(void)
{
	struct sockaddr_ll addr = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ARP) };
	struct ifreq ifr = { 0 };

	/* Protocol 0 hears nothing; bind() then names device and protocol in one go. */
	wire = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (wire < 0)
		die(remedy_for(errno, "af_packet"), "AF_PACKET socket");
	memcpy(ifr.ifr_name, tap_name, IFNAMSIZ);
	if (ioctl(wire, SIOCGIFFLAGS, &ifr) < 0)
		die("Has somebody removed it?", "flags of %s", tap_name);
	ifr.ifr_flags |= IFF_UP;
	if (ioctl(wire, SIOCSIFFLAGS, &ifr) < 0)
		die(remedy_for(errno, "tun"), "cannot bring %s up", tap_name);
	addr.sll_ifindex = (int)if_nametoindex(tap_name);
	if (bind(wire, (struct sockaddr *)&addr, sizeof(addr)) < 0)
		die("Has somebody removed it?", "bind to %s", tap_name);
	say("AF_PACKET socket", "%s is up, and we listen on it for ARP", tap_name);
}

/* The order matters: VHOST_NET_SET_BACKEND starts the queue, so it comes last. */
static void start_queue(unsigned int q)
{
	struct virtqueue *vq = &mem->vq[q];
	struct vhost_vring_state state = { .index = q, .num = QSIZE };
	struct vhost_vring_file file = { .index = q };
	struct vhost_vring_addr addr = {	/* Ours, not the guest's: this call is not translated. */
		.index = q,
		.desc_user_addr = (uintptr_t)vq->desc,
		.avail_user_addr = (uintptr_t)&vq->avail,
		.used_user_addr = (uintptr_t)&vq->used,
	};

	printf("\n4.%u The %s queue\n", q + 1, queue_name[q]);
	VHOST(VHOST_SET_VRING_NUM, &state, "%d entries", QSIZE);
	state.num = 0;
	VHOST(VHOST_SET_VRING_BASE, &state, "start at entry 0 (a migrated guest would not)");
	VHOST(VHOST_SET_VRING_ADDR, &addr, "descriptors %p, avail %p, used %p",
	      (void *)vq->desc, (void *)&vq->avail, (void *)&vq->used);

	file.fd = priv[q].kick = new_eventfd();
	VHOST(VHOST_SET_VRING_KICK, &file, "eventfd %d: driver to device, \"look at avail\"", file.fd);
	file.fd = priv[q].call = new_eventfd();
	VHOST(VHOST_SET_VRING_CALL, &file, "eventfd %d: device to driver, the interrupt", file.fd);
	file.fd = ring_error;
	VHOST(VHOST_SET_VRING_ERR, &file, "eventfd %d: device to monitor, \"this ring is broken\"", file.fd);
	file.fd = tap;
	VHOST(VHOST_NET_SET_BACKEND, &file, "%s is at the other end; the queue runs", tap_name);
}

/* 2.7.13.1 and 2.7.13.2: describe a buffer, then put its number into the avail ring. */
static void offer(unsigned int q, uint16_t id, const void *buf, uint32_t len, uint16_t flags)
{
	struct virtqueue *vq = &mem->vq[q];

	vq->desc[id].addr = htole64(guest_addr(buf));
	vq->desc[id].len = htole32(len);
	vq->desc[id].flags = htole16(flags);
	vq->avail.ring[priv[q].avail_idx++ % QSIZE] = htole16(id);
}

/* 2.7.13.3 and 2.7.13.4: let the device see what was offered, and wake it if it sleeps. */
static void publish(unsigned int q)
{
	struct virtqueue *vq = &mem->vq[q];
	uint64_t one = 1;

	/*
	 * Release: whoever sees the new idx also sees the descriptor and the ring entry that were
	 * written before it. Without it the device could follow a stale descriptor.
	 */
	atomic_store_explicit(&vq->avail.idx, htole16(priv[q].avail_idx), memory_order_release);

	/*
	 * The device, before it sleeps, clears NO_NOTIFY and then looks at idx once more; we write
	 * idx and then look at NO_NOTIFY. Store before load on both sides needs a full fence, or
	 * each could miss the other's store, and the frame would wait for ever.
	 */
	atomic_thread_fence(memory_order_seq_cst);
	if (le16toh(atomic_load_explicit(&vq->used.flags, memory_order_relaxed)) & VRING_USED_F_NO_NOTIFY) {
		say("no kick needed", "avail.idx of %s is %u; the device is looking anyway",
		    queue_name[q], priv[q].avail_idx);
		return;
	}
	if (write(priv[q].kick, &one, sizeof(one)) != sizeof(one))
		die("This should not happen", "kick of the %s queue", queue_name[q]);
	say("kick", "avail.idx of %s is %u, and the device is told", queue_name[q], priv[q].avail_idx);
}

/* 2.7.14: waits until the device is done with a buffer, and returns what it says of it. */
static struct vring_used_elem take_used(unsigned int q)
{
	struct virtqueue *vq = &mem->vq[q];
	struct vring_used_elem done;
	uint64_t calls;

	/* Acquire pairs with the device's write barrier: the entry is there if idx says so. */
	while (le16toh(atomic_load_explicit(&vq->used.idx, memory_order_acquire)) == priv[q].used_idx) {
		/* The eventfd counts, so a call that came before this line isn't lost. */
		wait_for(priv[q].call, "a used buffer");
		if (read(priv[q].call, &calls, sizeof(calls)) != sizeof(calls))
			die("This should not happen", "call of the %s queue", queue_name[q]);
	}
	done = vq->used.ring[priv[q].used_idx++ % QSIZE];
	done.id = le32toh(done.id);
	done.len = le32toh(done.len);
	errno = 0;
	if (done.id >= QSIZE || done.len > BUF_SIZE)
		die("This is a bug in the device", "bad used entry: id %u, len %u", done.id, done.len);
	say("used", "used.idx of %s is %u: descriptor %u is ours again, %u bytes written",
	    queue_name[q], priv[q].used_idx, done.id, done.len);
	return done;
}

static void compare(const char *who, const unsigned char *sent, const unsigned char *got, size_t len)
{
	say("frame", "%s got %zu bytes:", who, len);
	for (size_t i = 0; i < len && i < FRAME_LEN; i++)
		printf("%s%02x%s", i % 14 ? " " : "\t", got[i], i % 14 == 13 ? "\n" : "");
	errno = 0;
	if (len != FRAME_LEN || memcmp(sent, got, len))
		die("This is a bug in the device", "not the %zu bytes that were sent", FRAME_LEN);
	say("same", "byte for byte what was sent");
}

/* 5.1.6.3: a card without receive buffers is deaf, so the driver hands some out at once. */
static void fill_rx(void)
{
	printf("\n5. Buffers for what will come\n");
	for (uint16_t i = 0; i < QSIZE; i++)
		offer(RX, i, &mem->rx_buf[i], BUF_SIZE, VRING_DESC_F_WRITE);
	say("avail", "%d empty buffers of %d bytes, for the device to write", QSIZE, BUF_SIZE);
	publish(RX);
}

/* 5.1.6.2: a header of zeros says that there is nothing to checksum and nothing to segment. */
static void guest_to_host(void)
{
	unsigned char got[BUF_SIZE];
	ssize_t len;

	printf("\n6. Guest to host: \"Who has 192.0.2.1? Tell 192.0.2.2.\"\n");
	memcpy(mem->tx_buf.frame, question, FRAME_LEN);
	offer(TX, 0, &mem->tx_buf, sizeof(mem->tx_buf.hdr) + FRAME_LEN, 0);
	say("avail", "descriptor 0: %zu bytes of header, %zu of frame, for the device to read",
	    sizeof(mem->tx_buf.hdr), FRAME_LEN);
	publish(TX);
	wait_for(wire, "the guest's frame on the tap");
	len = recv(wire, got, sizeof(got), 0);
	if (len < 0)
		die("Has somebody removed the tap?", "recv on %s", tap_name);
	compare("the host", question, got, (size_t)len);
	take_used(TX);	/* Only now may the driver touch that buffer again. */
}

/* 5.1.6.4: the device fills our buffers in turn and says how much of each it wrote. */
static void host_to_guest(void)
{
	const size_t hdr_len = sizeof(mem->tx_buf.hdr);

	printf("\n7. Host to guest: \"192.0.2.1 is at 02:00:00:00:00:01.\"\n");
	if (send(wire, answer, FRAME_LEN, 0) != (ssize_t)FRAME_LEN)
		die("Has somebody taken the tap down?", "send on %s", tap_name);
	say("send", "%zu bytes on the tap's network device", FRAME_LEN);
	for (int strangers = 0; strangers < MAX_STRANGERS; strangers++) {
		struct vring_used_elem done = take_used(RX);
		const struct packet *buf = &mem->rx_buf[done.id];

		errno = 0;
		if (done.len < hdr_len + ETH_HLEN)
			die("This is a bug in the device", "%u bytes are no frame", done.len);
		if (!memcmp(buf->frame + ETH_ALEN, answer + ETH_ALEN, ETH_ALEN)) {
			say("header", "%zu bytes; num_buffers is %u", hdr_len, le16toh(buf->hdr.num_buffers));
			compare("the guest", answer, buf->frame, done.len - hdr_len);
			return;
		}
		say("not ours", "the host's own chatter (IPv6, most likely); the buffer goes back");
		offer(RX, (uint16_t)done.id, buf, BUF_SIZE, VRING_DESC_F_WRITE);
		publish(RX);
	}
	die("Is somebody else using the tap?", "no frame of ours among %d", MAX_STRANGERS);
}

/* Backend -1 stops a queue: when the call returns, the device uses neither tap nor ring. */
static void stop(void)
{
	printf("\n8. The end\n");
	for (unsigned int q = RX; q <= TX; q++) {
		struct vhost_vring_file none = { .index = q, .fd = VHOST_FILE_UNBIND };

		VHOST(VHOST_NET_SET_BACKEND, &none, "-1: the %s queue stands still", queue_name[q]);
	}
	close(vhost);
	close(wire);
	close(tap);
	errno = 0;
	if (if_nametoindex(tap_name))
		die("Remove it with: ip link del", "%s is still there", tap_name);
	say("close", "device, worker thread and %s are gone", tap_name);
}

int main(int argc, char **argv)
{
	if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
		fprintf(stderr, "usage: one-frame [NODE]     (NODE is /dev/vhost-net unless given)\n");
		return EXIT_FAILURE;
	}
	if (argc == 2)
		node = argv[1];

	printf("This process plays a guest, %s plays its network card.\n", node);
	ring_error = new_eventfd();
	open_device();
	share_memory();
	make_tap();
	open_wire();
	start_queue(RX);
	start_queue(TX);
	fill_rx();
	guest_to_host();
	host_to_guest();
	stop();
	printf("\nOne frame out, one frame in, both unharmed.\n");
	return EXIT_SUCCESS;
}
