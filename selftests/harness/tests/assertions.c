// SPDX-License-Identifier: GPL-2.0
/* One test that passes, one that fails an assertion, one that crashes. */
#include <stdlib.h>

#include "kselftest_harness.h"

TEST(good)
{
	ASSERT_EQ(4, 2 + 2);
}

TEST(bad)
{
	ASSERT_EQ(5, 2 + 2);
}

TEST(crash)
{
	abort();
}

TEST_HARNESS_MAIN
