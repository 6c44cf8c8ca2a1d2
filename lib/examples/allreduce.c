// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * allreduce RING: add up a vector over all members of a ring.
 */
#include <allreduce-uring.h>
#include <stdio.h>

#define COUNT	1000

/* What broke the ring, or why the call was refused. */
static void failed(struct aru *aru, int error)
{
	const char *why = "";

	aru_ring_error(aru, NULL, &why);
	if (!*why)
		why = aru_refusal(aru);
	fprintf(stderr, "allreduce: %s%s%s\n", aru_strerror(error), *why ? ": " : "", why);
}

int main(int argc, char **argv)
{
	static float v[COUNT];
	struct aru *aru;
	int ret, i;

	if (argc != 2) {
		fprintf(stderr, "usage: allreduce RING\n");
		return 2;
	}
	ret = aru_open(&aru, argv[1], NULL);
	if (ret) {
		fprintf(stderr, "ring \"%s\": %s\n", argv[1], aru_strerror(ret));
		return 1;
	}
	for (i = 0; i < COUNT; i++)
		v[i] = (float)(i * (int)(aru_rank(aru) + 1));
	/* In place; every member gets the sum. */
	ret = aru_allreduce(aru, v, v, COUNT, ALLREDUCE_F32, ALLREDUCE_SUM, NULL);
	if (ret)
		failed(aru, ret);
	else
		printf("rank %u of %u: the last element's sum is %g\n", aru_rank(aru),
		       aru_size(aru), (double)v[COUNT - 1]);
	aru_close(aru);
	return ret ? 1 : 0;
}
