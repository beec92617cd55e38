#include <cstdlib>
#include <string>

#include "kernels/tables.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace hearth::kernels {
namespace {

#if defined(__x86_64__)
bool has_f16c() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

bool has_avxvnni() {
  constexpr unsigned kBit = 1U << 4;  // of EAX, leaf 7, subleaf 1
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & kBit) != 0;
}

bool runs_avx512() {
  return runs_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni");
}
#elif defined(__aarch64__)
bool has_dotprod() { return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0; }
bool has_i8mm() { return (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0; }
#endif

}  // namespace

// __builtin_cpu_supports also asks whether the operating system keeps the registers.
bool runs_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
#else
  return false;
#endif
}

std::vector<const Kernels*> available_kernels() {
  std::vector<const Kernels*> tables = {&kScalarKernels};
#if defined(__x86_64__)
  if (runs_avx2()) tables.push_back(&kAvx2Kernels);
  if (runs_avx2() && has_avxvnni()) tables.push_back(&kAvxVnniKernels);
  if (runs_avx512()) tables.push_back(&kAvx512Kernels);
#elif defined(__aarch64__)
  tables.push_back(&kNeonKernels);  // every processor of this architecture has it
  if (has_dotprod()) tables.push_back(&kDotprodKernels);
  if (has_dotprod() && has_i8mm()) tables.push_back(&kI8mmKernels);
#endif
  return tables;
}

Result<const Kernels*> kernels_named(std::string_view name) {
  std::string choices;
  for (const Kernels* table : available_kernels()) {
    if (table->name == name) return table;
    choices += choices.empty() ? "" : ", ";
    choices += table->name;
  }
  return Error::of(ErrorCode::kUnsupported, "no kernels named \"", name,
                   "\" run on this processor; it runs ", choices);
}

Result<const Kernels*> select_kernels() {
  if (const char* name = std::getenv("HEARTH_ISA"); name != nullptr && *name != '\0') {
    return kernels_named(name);
  }
  return available_kernels().back();
}

}  // namespace hearth::kernels
