// StageForward: the layers of one stage over the rows of one step, wherever they run. The engine
// keeps what is the same everywhere (sequences, pages, hashes, sampling) and asks this for the
// rest. Two implementations: Forward on the processor's cores, CardForward on an NVIDIA card.
//
// A step is begun and finished, in the order of the steps. Where steps may overlap, one may begin
// while the one before is under way; no more than kStepsUnderWay are. One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/result.h"
#include "node/engine/kv_cache.h"
#include "node/engine/sampler.h"

namespace hearth::node {

struct ForwardRow {
  TokenId token = 0;
  Position position = 0;
  const BlockTable* pages = nullptr;  // holds at least position + 1 positions; the same for all
                                      // rows of a sequence, which stand together
  std::uint32_t state = 0;            // its sequence's, of states()
  bool sample = false;                // its logits are computed and handed on
  // For such a row, a stage that draws tokens itself may give the token in place of the logits, or
  // before them if they are observed.
  const DrawRequest* draw = nullptr;
  bool observed = false;
  bool embedded = false;  // of a last stage: its residual in output() is read
};

inline constexpr std::uint32_t kStepsUnderWay = 2;  // each has buffers of its own
inline constexpr std::uint32_t kHeadRows = 32;      // sampled rows whose logits are held at once

class StageForward {
 public:
  virtual ~StageForward() = default;
  // Logits of row `row`, on thread `thread` of threads(); the span lasts as long as the call.
  using OnLogits =
      std::function<void(std::uint32_t row, unsigned thread, std::span<const float> logits)>;

  // The token of row `row`, as Sampler::sample gives it; on the caller's thread.
  using OnToken = std::function<void(std::uint32_t row, const Result<TokenId>& token)>;

  struct Outputs {
    OnLogits on_logits;
    OnToken on_token;
  };

  // Whether a step that begins now need not wait for the steps under way.
  virtual bool may_overlap() const = 0;
  // Rows in input() are read, unless this is the first stage; `rows`, and what they point to, as
  // long as the call. `outputs` stays until the step is finished, and is called by either half. An
  // Error, here and of finish(), means that what runs the layers is gone for good: nothing of the
  // steps under way may be used, and every later call says the same.
  virtual Status begin(std::span<const ForwardRow> rows, const Outputs& outputs) = 0;
  // Whether finish() of the oldest step need not wait, or must be called for that step to go on.
  virtual bool ready() const = 0;
  virtual Status finish() = 0;
  // Whether a row of the step finished last left the numeric range, so that its output means
  // nothing. Valid until the next step begins.
  virtual bool failed(std::uint32_t row) const = 0;
  // (batch_rows, hidden): the 16-bit residual of the computed rows, from row 0 on, as it comes into
  // the step that begins next, and as it leaves the step finished last, until the next one begins.
  // On a last stage the latter means something in steps with an embedded row alone.
  virtual std::uint16_t* input() = 0;
  virtual const std::uint16_t* output() const = 0;

  virtual PagePool& pages() = 0;
  virtual const PagePool& pages() const = 0;
  // One layer's share of a page, for kernels::kv_read; `layer` counts from the stage's first one,
  // and keeps keys and values.
  // Lasts until the next call of anything here.
  virtual Result<const std::byte*> page(std::uint32_t index, std::uint32_t layer) const = 0;

  // The states of sequences; null where no layer of the stage keeps one. A sequence that begins
  // finds its state as it was left: the row at position 0 starts anew.
  virtual StatePool* states() { return nullptr; }
  // A sequence's state in one layer, which keeps one; likewise.
  virtual ByteSpan state(std::uint32_t /*state*/, std::uint32_t /*layer*/) const { return {}; }

  // Checks that the weights in memory are those that were loaded, if that needs no second copy of
  // them. kNumeric names the tensor that differs.
  virtual Status verify_weights() { return ok_status(); }

  virtual unsigned threads() const = 0;
  virtual std::size_t weight_bytes() const = 0;
};

}  // namespace hearth::node
