// plumb's own layout, for models that no published family describes: the whole ModelConfig, and tensors under
// their own names.
#include "model/families.h"

namespace plumb {

const Family kPlumbline{.type = "plumbline", .architecture = "", .read = nullptr, .write = nullptr};

}  // namespace plumb
