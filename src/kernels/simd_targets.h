// Include before any Highway header: which instruction sets a kernel is built for. The oldest beside the
// baseline is left out, which shortens every build; what it would serve runs the baseline.
#pragma once

#define HWY_DISABLED_TARGETS HWY_SSSE3
