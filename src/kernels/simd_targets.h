// Include before any Highway header: which instruction sets a kernel is built for. On x86: the baseline,
// SSE4, AVX2 and AVX-512; the steps between gain nothing here and lengthen every build.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
