// Rotary positions in config.json: rope_parameters of today, or rope_theta, rope_scaling and
// partial_rotary_factor beside each other, as older files have it.
#pragma once

#include "model/json_fields.h"
#include "plumb/config.h"

namespace plumb {

// What is absent has the value of `absent`, which is the family's; interleaved is no key but the family's
// own. Throws Error(config, unsupported).
RopeConfig read_rope(const JsonFields& fields, const RopeConfig& absent = {});
void write_rope(const RopeConfig& rope, JsonObject out);  // both ways: older engines read the second

}  // namespace plumb
