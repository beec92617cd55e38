// The known answers are the scalar table's, every table gives them, and a table with one wrong
// entry is refused by that entry's name.
#include "kernels/self_test.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <set>
#include <string>

#include "tests/unit/kernels/fixtures.h"

namespace hearth::kernels {
namespace {

const Kernels& first_table() { return *kernels_named("scalar").value(); }

TEST(SelfTest, TheAnswersAreWhatScalarGives) {
  const auto answers = answers_of(first_table()).value();
  const auto known = known_answers();
  bool same = answers.size() == known.size();
  for (std::size_t i = 0; same && i < known.size(); ++i) {
    same = answers[i].name == known[i].name && answers[i].digest == known[i].digest;
  }
  EXPECT_TRUE(same) << "where the canonical function was changed on purpose, "
                       "kernels/self_test_answers.inc is what was printed above";
  if (same) return;
  for (const Answer& each : answers) {
    std::printf("    {\"%s\", 0x%016llx},\n", each.name.c_str(),
                static_cast<unsigned long long>(each.digest));
  }
}

TEST(SelfTest, EveryTableOfThisProcessorGivesThem) {
  for (const Kernels* table : available_kernels()) {
    const Status tested = self_test(*table);
    EXPECT_TRUE(tested.ok()) << tested.error().message;
    EXPECT_TRUE(require_known_answers(*table).ok());
  }
}

TEST(SelfTest, NoQuestionIsAskedTwice) {
  std::set<std::string_view> names;
  std::set<std::uint64_t> digests;
  for (const KnownAnswer& each : known_answers()) {
    EXPECT_TRUE(names.insert(each.name).second) << each.name;
    EXPECT_TRUE(digests.insert(each.digest).second) << each.name;
  }
}

#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(SelfTest, TakesFarLessThanASecond) {
  for (const Kernels* table : available_kernels()) {
    const std::clock_t begun = std::clock();
    ASSERT_TRUE(self_test(*table).ok());
    const double seconds = static_cast<double>(std::clock() - begun) / CLOCKS_PER_SEC;
    std::printf("%s: %.1f ms\n", std::string(table->name).c_str(), seconds * 1e3);
    EXPECT_LT(seconds, 1.0) << table->name;
  }
}
#endif

// --- one wrong entry: the right one with the lowest bit of one output flipped ---

const Kernels& right() { return *available_kernels().back(); }

template <typename T>
void flip(T& value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 2 || sizeof(T) == 1);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits ^= 1U;
  std::memcpy(&value, &bits, sizeof(T));
}

bool (*wrong_type)(WeightType);

void wrong_matmul(const PackedMatrix& w, const QuantizedRows& x, std::uint32_t begin,
                  std::uint32_t end, float* out, std::size_t stride) {
  right().matmul(w, x, begin, end, out, stride);
  if (wrong_type(w.type())) flip(out[(x.rows - 1) * stride + w.rows() - 1]);
}
void wrong_partial(const PackedMatrix& w, const QuantizedRows& x, std::uint32_t begin,
                   std::uint32_t end, std::uint32_t from, std::uint32_t to, std::int32_t* out,
                   std::size_t stride) {
  right().matmul_partial(w, x, begin, end, from, to, out, stride);
  if (wrong_type(w.type())) flip(out[(x.rows - 1) * stride + w.rows() - 1]);
}
void wrong_dequantize(const PackedMatrix& w, std::uint32_t row, float* out) {
  right().dequantize_row(w, row, out);
  if (wrong_type(w.type()) && row + 1 == w.rows()) flip(out[w.cols() - 1]);
}

std::string refusal(const Kernels& table) {
  const Status tested = self_test(table);
  if (tested.ok()) return "";
  EXPECT_EQ(tested.error().code, ErrorCode::kNumeric);
  return tested.error().message;
}

TEST(SelfTest, AWrongProductIsNamedWithItsType) {
  Kernels tables[3] = {right(), right(), right()};
  tables[0].matmul = wrong_matmul;
  tables[1].matmul_partial = wrong_partial;
  tables[2].dequantize_row = wrong_dequantize;
  wrong_type = [](WeightType type) { return type == fixtures::kAllTypes[kWeightTypes - 1]; };
  const std::size_t last = (kWeightTypes - 1) * 3;
  for (std::size_t i = 0; i < 3; ++i) {
    tables[i].name = "wrong";
    const std::string expected =
        "the wrong kernels: " + std::string(known_answers()[last + i].name) + " gives";
    EXPECT_NE(refusal(tables[i]).find(expected), std::string::npos) << expected;
  }
  // Of every other type: each second one is wrong, and its answers alone are.
  for (const std::uint32_t odd : {0U, 1U}) {
    wrong_type = odd == 0
                     ? [](WeightType type) { return static_cast<std::uint32_t>(type) % 2 == 0; }
                     : [](WeightType type) { return static_cast<std::uint32_t>(type) % 2 == 1; };
    for (std::size_t i = 0; i < 3; ++i) {
      const auto answers = answers_of(tables[i]).value();
      for (std::size_t at = 0; at < answers.size(); ++at) {
        const bool wrong = at < kWeightTypes * 3 && at % 3 == i && at / 3 % 2 == odd;
        EXPECT_EQ(answers[at].digest != known_answers()[at].digest, wrong) << answers[at].name;
      }
    }
  }
}

template <bool (*Kernels::*Entry)(const float*, const float*, const QuantizedRows&, std::uint32_t)>
bool wrong_gated(const float* gate, const float* up, const QuantizedRows& out, std::uint32_t t) {
  const bool good = (right().*Entry)(gate, up, out, t);
  flip(out.sums[0]);
  return good;
}

template <typename Change>
void refused(const char* entry, Change change) {
  Kernels table = right();
  table.name = "wrong";
  change(table);
  EXPECT_NE(refusal(table).find(std::string("the wrong kernels: ") + entry + " gives"),
            std::string::npos)
      << entry << ": " << refusal(table);
}

TEST(SelfTest, EveryWrongEntryThatFeedsAProductIsNamed) {
  refused("quantize", [](Kernels& k) {
    k.quantize = [](const float* x, const QuantizedRows& out, std::uint32_t t) {
      const bool good = right().quantize(x, out, t);
      flip(out.values[out.cols * t + out.cols - 1]);
      return good;
    };
  });
  refused("rms_norm", [](Kernels& k) {
    k.rms_norm = [](const float* x, const float* w, float e, std::uint32_t n, float* out) {
      const bool good = right().rms_norm(x, w, e, n, out);
      flip(out[n - 1]);
      return good;
    };
  });
  refused("rms_norm_quantize", [](Kernels& k) {
    k.rms_norm_quantize = [](const float* x, const float* w, float e, const QuantizedRows& out,
                             std::uint32_t t, float* normed) {
      const bool good = right().rms_norm_quantize(x, w, e, out, t, normed);
      if (normed != nullptr) flip(normed[0]);
      return good;
    };
  });
  refused("swiglu_quantize",
          [](Kernels& k) { k.swiglu_quantize = wrong_gated<&Kernels::swiglu_quantize>; });
  refused("geglu_quantize",
          [](Kernels& k) { k.geglu_quantize = wrong_gated<&Kernels::geglu_quantize>; });
  refused("clamped_swiglu_quantize", [](Kernels& k) {
    k.clamped_swiglu_quantize = wrong_gated<&Kernels::clamped_swiglu_quantize>;
  });
}

TEST(SelfTest, EveryWrongEntryOfADeltaNetIsNamed) {
  refused("silu", [](Kernels& k) {
    k.silu = [](float* x, std::uint32_t n) {
      right().silu(x, n);
      flip(x[n - 1]);
    };
  });
  refused("multiply_sigmoid", [](Kernels& k) {
    k.multiply_sigmoid = [](float* x, const float* gate, std::uint32_t n) {
      right().multiply_sigmoid(x, gate, n);
      return true;
    };
  });
  refused("delta_step", [](Kernels& k) {
    k.delta_step = [](std::uint32_t n, const DeltaStep& step) {
      right().delta_step(n, step);
      step.state[n * n - 1] += 1.0F;  // flips of three positions may undo one another
    };
  });
}

TEST(SelfTest, EveryOtherWrongEntryIsNamed) {
  refused("rope", [](Kernels& k) {
    k.rope = [](float* x, std::uint32_t heads, std::uint32_t dim, RopeStyle style, const float* a) {
      right().rope(x, heads, dim, style, a);
      flip(x[heads * dim - 1]);
    };
  });
  refused("kv_write", [](Kernels& k) {
    k.kv_write = [](const KvLayout& layout, std::byte* page, std::uint32_t slot, const float* key,
                    const float* value) {
      const bool good = right().kv_write(layout, page, slot, key, value);
      flip(page[layout.page_bytes() - 1]);
      return good;
    };
  });
  refused("attention", [](Kernels& k) {
    k.attention = [](const AttentionArgs& args) {
      const bool good = right().attention(args);
      flip(args.out[args.group * args.layout.head_dim - 1]);
      return good;
    };
  });
  refused("attention with a cap", [](Kernels& k) {
    k.attention = [](const AttentionArgs& args) {
      const bool good = right().attention(args);
      if (args.score_cap > 0.0F) flip(args.out[0]);
      return good;
    };
  });
  refused("softcap", [](Kernels& k) {
    k.softcap = [](float* x, std::uint32_t n, float cap) {
      right().softcap(x, n, cap);
      flip(x[n - 1]);
    };
  });
  refused("attention with sinks", [](Kernels& k) {
    k.attention = [](const AttentionArgs& args) {
      const bool good = right().attention(args);
      if (args.sinks != nullptr) flip(args.out[0]);
      return good;
    };
  });
  refused("add", [](Kernels& k) {
    k.add = [](float* x, const float* y, std::uint32_t n) {
      right().add(x, y, n);
      flip(x[n - 1]);
    };
  });
  refused("residual_round", [](Kernels& k) {
    k.residual_round = [](float* x, std::uint16_t* bits, std::uint32_t n, int shift) {
      const bool good = right().residual_round(x, bits, n, shift);
      flip(bits[n - 1]);
      return good;
    };
  });
  refused("residual_expand", [](Kernels& k) {
    k.residual_expand = [](const std::uint16_t* bits, float* x, std::uint32_t n, int shift) {
      right().residual_expand(bits, x, n, shift);
      flip(x[n - 1]);
    };
  });
}

TEST(SelfTest, AWrongVerdictIsAWrongAnswer) {
  Kernels table = right();
  table.attention = [](const AttentionArgs& args) { return right().attention(args), false; };
  EXPECT_NE(refusal(table).find("attention"), std::string::npos);
  EXPECT_FALSE(require_known_answers(table).ok());
  EXPECT_FALSE(require_known_answers(table).ok()) << "a failure is not remembered as a pass";
}

}  // namespace
}  // namespace hearth::kernels
