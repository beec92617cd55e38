#include "node/engine/card/card_context.h"

namespace hearth::node {

std::optional<Error> CardContext::lost() const {
  const MutexLock lock(mutex_);
  return lost_;
}

void CardContext::lose(const Error& error) {
  const Error named{error.code, "cuda:" + std::to_string(index_) + ": " + error.message};
  {
    const MutexLock lock(mutex_);
    if (lost_) return;
    lost_ = named;
  }
  kernels::cuda::LostCard::lose(error);
  if (on_lost_) on_lost_(named);
}

}  // namespace hearth::node
