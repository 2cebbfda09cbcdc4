// Chooses the build of the kernel for this processor; the environment variable ASSAY_ISA overrides it in tests.
#pragma once
#include "kernel.h"

namespace assay {
const Kernel& chosen_kernel();
}
