"""Numbers as text for people, the same on the command line, on the pages and in notebooks."""

_LARGE = 1e15  # from here on, numbers are shown with an exponent
_MOST_DECIMALS = 9  # later digits are rounding errors of sums


def money_text(amount: float) -> str:
    """An amount of money as `12.5` or `0.00001`, to a billionth."""
    shown = number_text(amount)
    return f"{amount:,.{_MOST_DECIMALS}f}".rstrip("0").rstrip(".") if "e" in shown else shown


def number_text(value: float, digits: int = 4) -> str:
    """A number as `12,346.7`, `0.3333` or `1.234e-05`.

    It has at most `digits` decimals; below 1, as many significant digits. It has more where it would look like a whole
    number without being one: 0.99996 and 1.00004 stay as they are.
    """
    if isinstance(value, int):
        return f"{value:,}"
    if not abs(value) < _LARGE:
        return f"{value:.{digits}g}"
    whole = len(str(int(abs(value)))) if abs(value) >= 1 else 0
    for decimals in range(digits, _MOST_DECIMALS + 1):
        shown = float(f"{value:.{whole + decimals}g}")
        if shown == value or not shown.is_integer():
            return f"{shown + 0.0:,}".removesuffix(".0")  # adding 0.0 turns -0.0 into 0.0
    return f"{round(value):,}"
