//! `shared_array!`.

use std::env;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::parse::{Parse, ParseStream};
use syn::{Error, Expr, Token, Type};

/// `T; LEN`
struct Array {
    element: Type,
    len: Expr,
}

impl Parse for Array {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let element = input.parse()?;
        input.parse::<Token![;]>().map_err(|error| {
            Error::new(error.span(), "expected `;`: the form is `shared_array![T; LEN]`")
        })?;
        let len = input.parse()?;
        if !input.is_empty() {
            return Err(input.error("nothing may follow LEN in `shared_array![T; LEN]`"));
        }
        Ok(Array { element, len })
    }
}

/// A name that no other expansion in the linked program has.
///
/// Line and column would not do: two arrays in one `macro_rules!` body share them. Expansions of a
/// crate are numbered in source order, so the name is the same at every build.
fn symbol() -> String {
    static EXPANSIONS: AtomicUsize = AtomicUsize::new(0);
    let number = EXPANSIONS.fetch_add(1, Ordering::Relaxed);
    let variable = |name| env::var(name).unwrap_or_default();
    let crate_name = variable("CARGO_CRATE_NAME");
    let mut hasher = DefaultHasher::new();
    (variable("CARGO_PKG_NAME"), variable("CARGO_PKG_VERSION"), &crate_name).hash(&mut hasher);
    let package = hasher.finish() as u32;
    format!("shared_{crate_name}_{package:08x}_{number}")
}

pub fn expand(input: TokenStream) -> syn::Result<TokenStream> {
    let Array { element, len } = syn::parse2(input)?;
    let symbol = symbol();
    let declaration = format!(".shared .align {{align}} .b8 {symbol}[{{bytes}}];");
    let address = format!("mov.u32 {{}}, {symbol};");
    let storage = format_ident!("__{symbol}", span = Span::mixed_site());
    // `global_asm!` is an item, so inside a function it has to stand in a module, where the
    // function's own items can't be named. The size therefore goes in through a trait that is
    // implemented outside of that module.
    Ok(quote! {{
        #[allow(non_snake_case)]
        mod #storage {
            pub struct Storage;
            #[cfg(target_arch = "nvptx64")]
            ::core::arch::global_asm!(
                #declaration,
                align = const <Storage as ::cuda_std::shared::StaticStorage>::ALIGN,
                bytes = const <Storage as ::cuda_std::shared::StaticStorage>::BYTES,
            );
        }
        #[allow(non_local_definitions)]
        impl ::cuda_std::shared::StaticStorage for #storage::Storage {
            type Element = #element;
            const LEN: usize = #len;
        }
        #[cfg(target_arch = "nvptx64")]
        let __address: u32 = {
            let address: u32;
            ::core::arch::asm!(#address, out(reg32) address, options(pure, nomem, nostack));
            address
        };
        #[cfg(not(target_arch = "nvptx64"))]
        let __address: u32 = 0;
        ::cuda_std::shared::static_array::<#storage::Storage>(__address)
    }})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_expansion_has_its_own_symbol() {
        let names: Vec<String> = (0..3).map(|_| symbol()).collect();
        assert!(names[0] != names[1] && names[1] != names[2] && names[0] != names[2]);
        assert!(
            names.iter().all(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
        );
    }

    #[test]
    fn declares_a_shared_variable() {
        let text = expand(quote!(f32; 16 * 16)).unwrap().to_string();
        assert!(text.contains(".shared .align {align} .b8 shared_"), "{text}");
        assert!(text.contains("const LEN : usize = 16 * 16"), "{text}");
    }

    #[test]
    fn malformed_input_is_told_the_form() {
        let error = expand(quote!(f32, 16)).err().unwrap().to_string();
        assert!(error.contains("`shared_array![T; LEN]`"), "{error}");
        let error = expand(quote!(f32; 16, 3)).err().unwrap().to_string();
        assert!(error.contains("nothing may follow LEN"), "{error}");
    }
}
