#include "proto/wrong_bytes.h"

#include "base/limits.h"
#include "proto/control.pb.h"
#include "proto/fixed_field.h"
#include "proto/frame.h"

namespace hearth {

void write_wrong_bytes(const WrongBytes& wrong, control::v1::WrongBytes& message) {
  message.set_node(wrong.node);
  message.set_model(to_field(wrong.model.bytes));
  message.set_item(wrong.item);
  message.set_begin(wrong.begin);
  message.set_end(wrong.end);
}

Result<WrongBytes> read_wrong_bytes(const control::v1::WrongBytes& message) {
  WrongBytes wrong;
  wrong.node = message.node();
  TRY_VOID(check_node_name(wrong.node));
  REQUIRE(read_field(message.model(), wrong.model.bytes), "the model of wrong bytes has an id of ",
          message.model().size(), " bytes; it must have ", wrong.model.bytes.size());
  REQUIRE(!message.item().empty() && message.item().size() <= limits::kWrongItemBytes,
          "the name of what is wrong has ", message.item().size(), " bytes; it must have 1 to ",
          limits::kWrongItemBytes);
  wrong.item = decode_refused(as_bytes(message.item()));
  wrong.begin = message.begin();
  wrong.end = message.end();
  REQUIRE(wrong.begin < wrong.end && wrong.end <= limits::kModelFileBytes, "wrong bytes from ",
          wrong.begin, " to ", wrong.end, " are not a range of a file of at most ",
          limits::kModelFileBytes);
  return wrong;
}

}  // namespace hearth
