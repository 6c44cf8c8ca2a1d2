// SPDX-License-Identifier: GPL-2.0
/*
 * Vectors for the demo, from what is on the machine: demo-histogram OUTDIR
 * MEMBERS DIR...
 *
 * The files below DIR are dealt out to the members. Each member counts the
 * four-byte sequences of its files, hashed to SLOTS slots, and weighs them as
 * text retrieval does: (1 + log count) * log((1 + files) / (1 + files with it)).
 * So the sum over the members is what a distributed index would sum, the values
 * are irrational, and adding them rounds.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A prime above 2^22: more than 16 MiB of f32, divisible by no ring's size. */
#define SLOTS			4194319U

#define MEMBERS_MAX		64
#define FILE_BYTES_MAX		(2 << 20)
#define MEMBER_BYTES_MAX	(20 << 20)
#define MEMBER_BYTES_MIN	(1 << 20)

/**
 * struct shard - one member's share
 * @count: occurrences, by slot
 * @files_with: files in which the slot occurs
 * @last_file: last of them, from 1
 * @files: files read
 * @bytes: bytes read
 */
struct shard {
	uint32_t *count;
	uint32_t *files_with;
	uint32_t *last_file;
	uint32_t files;
	uint64_t bytes;
};

static struct shard shards[MEMBERS_MAX];
static unsigned int n_shards;
static uint8_t buffer[FILE_BYTES_MAX];

static uint32_t slot_of(uint32_t sequence)
{
	uint64_t h = sequence * 0x9e3779b97f4a7c15ULL;

	return (h >> 32) * SLOTS >> 32;
}

static void count_bytes(struct shard *shard, const uint8_t *data, size_t len)
{
	uint32_t sequence = 0, slot;
	size_t i;

	shard->files++;
	shard->bytes += len;
	for (i = 0; i < len; i++) {
		sequence = sequence << 8 | data[i];
		if (i < 3)
			continue;
		slot = slot_of(sequence);
		shard->count[slot]++;
		if (shard->last_file[slot] == shard->files)
			continue;
		shard->last_file[slot] = shard->files;
		shard->files_with[slot]++;
	}
}

static unsigned int shard_of(const char *path)
{
	uint32_t hash = 2166136261U;

	while (*path)
		hash = (hash ^ (uint8_t)*path++) * 16777619U;
	return hash % n_shards;
}

static bool all_full(void)
{
	unsigned int i;

	for (i = 0; i < n_shards; i++)
		if (shards[i].bytes < MEMBER_BYTES_MAX)
			return false;
	return true;
}

/* Ends the walk, with 1, when every member has its share. */
static int see_file(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	struct shard *shard;
	ssize_t len, all = 0;
	int fd;

	(void)ftw;
	if (flag != FTW_F || !S_ISREG(st->st_mode) || st->st_size < 4)
		return 0;
	shard = &shards[shard_of(path)];
	if (shard->bytes >= MEMBER_BYTES_MAX)
		return 0;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return 0;
	while (all < FILE_BYTES_MAX &&
	       (len = read(fd, buffer + all, FILE_BYTES_MAX - all)) > 0)
		all += len;
	close(fd);
	if (all >= 4)
		count_bytes(shard, buffer, all);
	return all_full();
}

static float weight(const struct shard *shard, uint32_t slot)
{
	double count = shard->count[slot];

	if (!shard->count[slot])
		return 0;
	return (1 + log(count)) *
	       log((1.0 + shard->files) / (1.0 + shard->files_with[slot]));
}

static int write_shard(const char *dir, unsigned int member)
{
	struct shard *shard = &shards[member];
	uint32_t slot, filled = 0;
	char path[4096];
	FILE *file;
	float w;

	snprintf(path, sizeof(path), "%s/member-%u.f32", dir, member);
	file = fopen(path, "w");
	if (!file)
		goto err;
	for (slot = 0; slot < SLOTS; slot++) {
		w = weight(shard, slot);
		filled += w != 0;
		if (fwrite(&w, sizeof(w), 1, file) != 1)
			goto err;
	}
	if (fclose(file))
		goto err;
	printf("member %u: %u files, %.1f MiB read, %u slots, %.1f %% of them filled\n",
	       member, shard->files, shard->bytes / 1048576.0, SLOTS,
	       100.0 * filled / SLOTS);
	return 0;
err:
	fprintf(stderr, "demo-histogram: %s: %s\n", path, strerror(errno));
	return 1;
}

static int alloc_shards(void)
{
	unsigned int i;

	for (i = 0; i < n_shards; i++) {
		shards[i].count = calloc(SLOTS, sizeof(uint32_t));
		shards[i].files_with = calloc(SLOTS, sizeof(uint32_t));
		shards[i].last_file = calloc(SLOTS, sizeof(uint32_t));
		if (!shards[i].count || !shards[i].files_with || !shards[i].last_file)
			return 1;
	}
	return 0;
}

static void free_shards(void)
{
	unsigned int i;

	for (i = 0; i < n_shards; i++) {
		free(shards[i].count);
		free(shards[i].files_with);
		free(shards[i].last_file);
	}
}

static int write_all(const char *dir)
{
	unsigned int i;
	int ret = 0;

	for (i = 0; i < n_shards && !ret; i++) {
		if (shards[i].bytes < MEMBER_BYTES_MIN) {
			fprintf(stderr, "demo-histogram: only %llu bytes of files for member %u\n",
				(unsigned long long)shards[i].bytes, i);
			return 1;
		}
		ret = write_shard(dir, i);
	}
	return ret;
}

int main(int argc, char **argv)
{
	int i, ret;

	n_shards = argc < 4 ? 0 : strtoul(argv[2], NULL, 10);
	if (!n_shards || n_shards > MEMBERS_MAX) {
		fprintf(stderr, "usage: demo-histogram OUTDIR MEMBERS DIR... (1 to %d members)\n",
			MEMBERS_MAX);
		return 1;
	}
	if (alloc_shards()) {
		fprintf(stderr, "demo-histogram: no memory\n");
		free_shards();
		return 1;
	}
	for (i = 3; i < argc && !all_full(); i++)
		if (nftw(argv[i], see_file, 64, FTW_PHYS | FTW_MOUNT) < 0)
			fprintf(stderr, "demo-histogram: %s: %s\n", argv[i],
				strerror(errno));
	ret = write_all(argv[1]);
	free_shards();
	return ret;
}
