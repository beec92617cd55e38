#include "ledger/salt.h"

#include "base/bytes.h"

namespace hearth::ledger {

Hash256 choice_salt(const Hash256& answer_salt, const RequestId& request) {
  Bytes words;
  ByteWriter writer(words);
  writer.append(as_bytes("choice"));
  writer.append(request);
  return keyed_blake2b(answer_salt, words);
}

}  // namespace hearth::ledger
