#include "dispatch.h"

#include <cstdlib>
#include <cstring>

namespace assay {

const Kernel& chosen_kernel() {
  struct Choice {
    const Kernel* kernel;
    bool runs;
  };
#if defined(ASSAY_X86)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  const Choice choices[] = {{&kAvx512, avx512}, {&kAvx2, avx2}, {&kBaseline, true}};
#else
  const Choice choices[] = {{&kBaseline, true}};
#endif
  const char* requested = std::getenv("ASSAY_ISA");
  for (const Choice& choice : choices)
    if (choice.runs && (!requested || !*requested || std::strcmp(requested, choice.kernel->name) == 0)) return *choice.kernel;
  return kBaseline;
}

}  // namespace assay
