// Made by resnet9_reference.py: two training steps of a small ResNet-9 in PyTorch, in double precision.
#pragma once

namespace penstock::test {

/// Losses of the two steps, with label smoothing; then the loss in evaluation, without.
inline constexpr double kReferenceLosses[] = {1.62362318, 1.61414918, 9.36691488};

/// Parameters after the two steps: name, sum, sum of values times sin(index), index in PyTorch's layout.
struct ReferenceParameter {
  const char* name;
  double sum;
  double weighted;
};
inline constexpr ReferenceParameter kReferenceParameters[] = {
    {"prep.0.weight", -0.044024015, -0.438814013},
    {"prep.1.weight", 2.74926785, 1.1476523},
    {"prep.1.bias", 0.141238563, -0.0537616524},
    {"layer1.0.weight", 0.0019406108, -1.12975097},
    {"layer1.1.weight", 3.9693474, 1.93097886},
    {"layer1.1.bias", 1.1016215, 0.674036006},
    {"residual1.0.weight", 0.240642845, 0.269214704},
    {"residual1.1.weight", 3.23357112, 1.39144419},
    {"residual1.1.bias", -1.04550264, -0.596734268},
    {"residual1.3.weight", -0.19535014, -0.492623679},
    {"residual1.4.weight", 5.13756895, 2.57685281},
    {"residual1.4.bias", 0.401459921, 0.18566619},
    {"layer2.0.weight", 0.0402737874, 0.61696065},
    {"layer2.1.weight", 8.18840276, -0.593947011},
    {"layer2.1.bias", 0.377338759, -0.240258495},
    {"layer3.0.weight", 1.0080693, 0.0958907487},
    {"layer3.1.weight", 15.4213045, 2.91434951},
    {"layer3.1.bias", -0.583812243, 0.702289755},
    {"residual3.0.weight", 0.0847793383, -0.0444552045},
    {"residual3.1.weight", 16.7328187, 0.902198068},
    {"residual3.1.bias", 0.125254624, 0.0546939703},
    {"residual3.3.weight", -0.78893168, 0.189186315},
    {"residual3.4.weight", 15.5283901, 2.45533682},
    {"residual3.4.bias", 0.411421471, -0.787487627},
    {"linear.weight", 0.234834168, -0.788031872},
    {"linear.bias", 0.701512885, 0.75036855},
    {"prep.1.running_mean", -0.0137897361, -0.00581817699},
    {"prep.1.running_var", 2.10732894, 0.886994035},
    {"layer1.1.running_mean", 0.0597964848, 0.0284781358},
    {"layer1.1.running_var", 6.88766508, 3.25578685},
    {"residual1.1.running_mean", -0.675914253, -0.322033471},
    {"residual1.1.running_var", 14.5569265, 6.8711219},
    {"residual1.4.running_mean", -0.00684994312, -0.00359087201},
    {"residual1.4.running_var", 5.3137727, 2.5146486},
    {"layer2.1.running_mean", -0.277303994, -0.0788117189},
    {"layer2.1.running_var", 37.1760163, 2.18448255},
    {"layer3.1.running_mean", -4.24963487, -0.407230669},
    {"layer3.1.running_var", 124.037743, 9.92759113},
    {"residual3.1.running_mean", -0.689000756, 0.134652625},
    {"residual3.1.running_var", 16.6060643, 2.15263941},
    {"residual3.4.running_mean", 2.61943273, -0.458046673},
    {"residual3.4.running_var", 16.6513518, 1.8879676},
};

}  // namespace penstock::test
